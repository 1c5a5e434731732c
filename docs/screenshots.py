"""Pictures of pages: python docs/screenshots.py runs/demo

Opens the report of a finished run in headless Chromium (apt-get install -y chromium)
and writes docs/images/report.png, report-dark.png and map.png. With --watch the run's
folder is watched instead, as 'invariance watch' does, and the picture is watch.png: let
a training run meanwhile. Needs playwright, which the test extra installs.
"""

import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from invariance.cli import make_server

IMAGES = Path(__file__).parent / "images"
LARGEST = 400_000  # bytes of a picture in the repository


def main(run: Path, *, watch: bool = False) -> None:
    """Write the pictures of one run's report, or of its folder while a run goes on."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not watch and not (run / "report.html").is_file():
        sys.exit(f"There is no report in {run}: 'invariance report {run}' writes it.")
    if chromium is None:
        sys.exit("There is no Chromium: apt-get install -y chromium")
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        if watch:
            picture_folder(browser, run.parent, IMAGES / "watch.png")
        else:
            picture_report(browser, run / "report.html")
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        size = path.stat().st_size
        print(f"{path}: {size / 1000:.0f} kB")
        if size > LARGEST:
            sys.exit(f"{path} is larger than {LARGEST / 1000:.0f} kB.")


def open_page(browser: Browser, address: str, scheme: str = "light") -> Page:
    """A page as a reader has it on a screen."""
    page = browser.new_page(
        viewport={"width": 1180, "height": 980},
        device_scale_factor=1.5,
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    page.goto(address)
    return page


def picture_report(browser: Browser, report: Path) -> None:
    """The report in light and dark, and its map."""
    for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
        page = open_page(browser, report.resolve().as_uri(), scheme)
        page.screenshot(path=IMAGES / name)
        if scheme == "light":
            picture_map(page, IMAGES / "map.png")
        page.close()


def picture_folder(browser: Browser, folder: Path, path: Path) -> None:
    """The page that follows the runs of a folder."""
    with make_server(folder, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = open_page(browser, f"http://127.0.0.1:{server.server_address[1]}/")
        page.locator("#shown svg").first.wait_for()
        page.screenshot(path=path)
        page.close()
        server.shutdown()


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
    named = [word for word in sys.argv[1:] if word != "--watch"]
    main(Path(named[0] if named else "runs/demo"), watch="--watch" in sys.argv)
