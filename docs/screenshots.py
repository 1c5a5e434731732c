"""The README's pictures of a report: python docs/screenshots.py runs/demo

Opens the report of a finished run in headless Chromium (apt-get install -y chromium)
and writes docs/images/report.png, report-dark.png and map.png. Needs playwright, which
the test extra installs.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
LARGEST = 400_000  # bytes of a picture in the repository


def main(run: Path) -> None:
    """Write the pictures of one run's report."""
    report = run / "report.html"
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not report.is_file():
        sys.exit(f"There is no {report}: 'invariance report {run}' writes it.")
    if chromium is None:
        sys.exit("There is no Chromium: apt-get install -y chromium")
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            page = browser.new_page(
                viewport={"width": 1180, "height": 980},
                device_scale_factor=1.5,
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page.goto(report.resolve().as_uri())
            page.screenshot(path=IMAGES / name)
            if scheme == "light":
                picture_map(page, IMAGES / "map.png")
            page.close()
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        size = path.stat().st_size
        print(f"{path}: {size / 1000:.0f} kB")
        if size > LARGEST:
            sys.exit(f"{path} is larger than {LARGEST / 1000:.0f} kB.")


def picture_map(page: Page, path: Path) -> None:
    """The map with an image chosen and the pointer on another."""
    page.locator("#plane").scroll_into_view_if_needed()
    points = page.locator("#points circle")
    n = points.count()
    page.locator("label[for=by-pictures]").click()
    point_at(page, n // 3)
    page.mouse.down()
    page.mouse.up()
    point_at(page, n // 2)
    page.locator(".map").screenshot(path=path)


def point_at(page: Page, i: int) -> None:
    """Move the pointer onto a point of the map."""
    box = page.locator("#points circle").nth(i).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
