"""The report opened from disk in a real browser; ``opened`` says what may not be."""

import io

import pytest
from PIL import Image
from tests.made_runs import DEFAULTS, colour, gallery, reading, score, scores

from invariance.report import write_comparison, write_report
from invariance.training import Train, train

N = 30
CONFIG = DEFAULTS | {"epochs": 4, "batch_size": 64}
EVIL = "<img src=x onerror=alert(1)>.png"


@pytest.fixture
def shown(made, opened):
    """The report of a made-up run on the screen."""

    def show(*, width=1200, reader=None, **changes):
        path = write_report(made(gallery=changes.pop("gallery", gallery(N)), **changes))
        return opened(path, width=width, **(reader or {}))

    return show


def point_at(page, i):
    """Move the pointer onto the point of picture i."""
    page.locator("#plane").scroll_into_view_if_needed()
    box = page.locator("#points circle").nth(i).bounding_box()
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*place)
    return place


def choose(page, i):
    page.mouse.click(*point_at(page, i))


def colour_of(locator):
    """Of the middle of what is on the screen."""
    picture = Image.open(io.BytesIO(locator.screenshot())).convert("RGB")
    return picture.getpixel((picture.width // 2, picture.height // 2))


def is_about(seen, wanted):
    return all(abs(a - b) <= 8 for a, b in zip(seen, wanted, strict=True))


def test_the_map_has_a_point_for_each_image(shown):
    page = shown()
    assert page.locator("#points circle").count() == N
    assert page.locator("#plane").get_attribute("data-points") == str(N)
    places = page.locator("#points circle").evaluate_all(
        "all => all.map(c => [c.cx.baseVal.value, c.cy.baseVal.value])"
    )
    assert len({tuple(place) for place in places}) == N
    assert all(0 <= x <= 1000 and 0 <= y <= 760 for x, y in places)


@pytest.mark.parametrize("i", [0, 17, N - 1])
def test_pointing_shows_the_picture(shown, i):
    page = shown()
    assert page.locator("#tip").is_hidden()
    point_at(page, i)
    assert page.locator("#tip").is_visible()
    assert f"pictures/{i}.png" in page.locator("#tip").inner_text()
    assert ["cat", "dog", "owl"][i % 3] in page.locator("#tip").inner_text()
    assert is_about(colour_of(page.locator("#tip .thumb")), colour(i))
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_clicking_shows_the_nearest_neighbours(shown):
    page = shown()
    choose(page, 4)
    near = page.locator("#chosen ol button")
    assert near.count() == 10 and page.locator("#links line").count() == 10
    said = near.evaluate_all("all => all.map(b => b.getAttribute('aria-label'))")
    assert said[:2] == [
        "pictures/5.png, owl, cosine 1.00",
        "pictures/6.png, cat, cosine 0.95",
    ]
    assert is_about(colour_of(near.nth(0).locator(".thumb")), colour(5))
    marks = near.all_inner_texts()
    assert marks[0].startswith("✗") and marks[2].startswith("✓")  # not by colour alone
    near.nth(0).click()
    assert "pictures/5.png" in page.locator("#chosen .who").inner_text()
    assert "pictures/5.png" in page.locator("#spoken").inner_text()


def place_of(circle):
    return [float(circle.get_attribute(key)) for key in ("cx", "cy")]


def test_it_works_by_keyboard(shown):
    page = shown()
    for _ in range(40):
        if page.evaluate("document.activeElement.id") == "plane":
            break
        page.keyboard.press("Tab")
    chosen, seen = page.locator("#chosen .who"), set()
    page.keyboard.press("ArrowRight")
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowUp"):
        before = place_of(page.locator("#marks .here"))
        page.keyboard.press(key)
        after = place_of(page.locator("#marks .here"))
        seen.add(chosen.inner_text())
        axis = 0 if key in ("ArrowRight", "ArrowLeft") else 1
        sign = -1 if key in ("ArrowLeft", "ArrowUp") else 1
        assert sign * (after[axis] - before[axis]) > 0
    assert len(seen) >= 3
    page.keyboard.press("Home")
    assert "pictures/0.png" in chosen.inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('#chosen') !== null")
    page.keyboard.press("Enter")
    assert "pictures/1.png" in chosen.inner_text()
    page.locator("#plane").focus()
    page.keyboard.press("Escape")
    assert chosen.count() == 0 and page.locator("#marks .here").count() == 0


def test_zoom_and_drag(shown):
    page, box = shown(), "0 0 1000 760"
    plane = page.locator("#plane")
    page.locator("[data-zoom=in]").click()
    closer = plane.get_attribute("viewBox")
    assert float(closer.split()[2]) == pytest.approx(625)
    middle = plane.bounding_box()
    x, y = middle["x"] + middle["width"] / 2, middle["y"] + middle["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 40, steps=3)
    page.mouse.up()
    assert plane.get_attribute("viewBox") not in (box, closer)
    assert page.locator("#chosen .who").count() == 0  # a drag is no click
    plane.focus()
    page.keyboard.press("0")
    assert plane.get_attribute("viewBox") == box
    page.mouse.wheel(0, -300)
    assert plane.get_attribute("viewBox") != box


def test_colours_by_label_and_by_cluster(shown):
    page = shown()
    classes = "all => all.map(c => c.getAttribute('class'))"
    circles = page.locator("#points circle")
    assert circles.evaluate_all(classes) == [f"c{i % 3}" for i in range(N)]
    page.locator("label[for=by-cluster]").click()
    assert circles.evaluate_all(classes) == [f"c{i % 4}" for i in range(N)]
    assert page.locator(".legend:visible").inner_text().startswith("cluster 1")
    page.locator(".legend:visible button").first.click()
    dim = page.locator("#points circle.dim").count()
    assert dim == sum(i % 4 != 0 for i in range(N))
    assert page.locator(".legend button[aria-pressed=true]").count() == 1


def test_pictures_on_the_map(shown):
    page = shown()
    assert page.locator("#shown svg").count() == 0
    page.locator("label[for=by-pictures]").click()
    assert 5 < page.locator("#shown svg").count() <= N
    assert is_about(colour_of(page.locator("#shown rect").first), colour(0))


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("n", [1, 2, 11])
def test_few_images_and_no_labels(shown, n, labels):
    page = shown(gallery=gallery(n, labels=labels))
    assert page.locator("#points circle").count() == n
    choose(page, 0)
    assert page.locator("#chosen ol button").count() == min(n - 1, 10)
    assert page.locator("label[for=by-label]").count() == int(labels)


def test_without_thumbnails(made, opened):
    folder = made(gallery=gallery(N))
    (folder / "gallery/thumbnails.jpg").unlink()
    page = opened(write_report(folder))
    assert "thumbnails.jpg is missing" in page.locator("main").inner_text()
    choose(page, 0)
    assert page.locator("#chosen ol button").count() == 10
    assert page.locator("use").count() == 0


def test_names_of_files_are_shown_and_not_run(shown):
    names = [EVIL, "</script><script>alert(2)</script>", "a\u2028b", "&lt;b&gt;", "'\""]
    names += [f"{k}.png" for k in range(N - len(names))]
    page = shown(gallery=gallery(N, names=names) | {"class_names": [EVIL] * 3})
    for i in range(3):
        point_at(page, i)
        assert names[i].strip() in page.locator("#tip").text_content()
        choose(page, i)
        assert names[i] in page.locator("#chosen .who").text_content()
    assert page.locator("img:not(.views)").count() == 0
    assert page.locator("script").count() == 2


def test_a_run_on_a_folder_with_such_a_name(tmp_path, opened):
    for k in range(16):
        place = tmp_path / "data" / ("<b>cat" if k % 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        name = EVIL if k == 1 else f"{k}.png"
        Image.new("RGB", (12, 12), colour(k)).save(place / name)
    run = train(
        Train(
            data=str(tmp_path / "data"),
            limit=None,
            batch_size=4,
            epochs=1,
            hidden=8,
            width=4,
            quiet=True,
            image_size=12,
            out=str(tmp_path / "runs"),
        )
    )
    page = opened(run.folder / "report.html")
    n = int(page.locator("#plane").get_attribute("data-points"))
    assert page.locator("#points circle").count() == n >= 1
    for i in range(n):
        choose(page, i)
        assert page.locator("#chosen .who").count() == 1
    assert page.locator("img:not(.views)").count() == 0


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_and_light(shown):
    page = shown(reader={"color_scheme": "dark"})
    dark = background(page)
    assert max(map(int, dark[4:-1].split(","))) < 60
    page.locator("#theme").click()
    assert background(page) == "rgb(255, 255, 255)"
    page.locator("#theme").click()
    assert background(page) == dark


def test_the_system_decides_first(shown):
    page = shown()
    assert background(page) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    assert background(page) != "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [320, 600, 900])
def test_a_narrow_window(shown, width):
    page = shown(width=width, reader={"has_touch": True})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    plane = page.locator("#plane").bounding_box()
    assert plane["x"] >= 0 and plane["x"] + plane["width"] <= width
    page.touchscreen.tap(*point_at(page, 3))
    assert page.locator("#chosen ol button").count() == 10


def test_on_paper(shown):
    page = shown(reader={"color_scheme": "dark"})
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"
    assert page.locator(".topbar").is_hidden() and page.locator(".tools").is_hidden()
    assert page.locator("#plane").is_visible()
    assert len(page.pdf(format="A4")) > 10_000


def test_without_script_nothing_is_lost_but_the_play(shown):
    page = shown(reader={"java_script_enabled": False})
    assert page.locator("#points circle").count() == N
    assert page.locator(".grid-of-neighbors svg.thumb").count() > 50
    assert page.locator("#theme").is_hidden() and page.locator(".tools").is_hidden()


def test_landmarks_and_names(shown):
    page = shown()
    for landmark in ("main", "nav", "header", "footer", "aside"):
        assert page.locator(f"body {landmark}").count() == 1
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, a, input, [role=img]')]
        .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label')
          || e.labels?.[0]?.textContent)).map(e => e.outerHTML)"""
    )
    assert unnamed == []
    targets = page.locator("nav a").evaluate_all(
        "all => all.filter(a => !document.querySelector(a.getAttribute('href'))).length"
    )
    assert targets == 0


@pytest.fixture
def side_by_side(made, opened):
    """A comparison on the screen: the later a run, the higher its score."""

    def show(n, **reader):
        folders = [
            made(
                name=f"run{k}",
                evaluation=scores(trained=0.5 + k / 40),
                config=CONFIG | {"seed": k, "method": "simclr" if k else "dcl"},
                metrics=[reading(i, loss=9.0 - k - i / 40) for i in range(1, 21)],
                gallery=gallery(6 if k < n - 1 else 9),
            )
            for k in range(n)
        ]
        return opened(write_comparison(folders), **reader)

    return show


def names_of(page):
    return page.locator("table.runs tbody label").all_inner_texts()


@pytest.mark.parametrize("n", [2, 4, 12])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_comparison(side_by_side, n, scheme):
    page = side_by_side(n, width=390, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("h1").inner_text().startswith("run0")
    assert (background(page) == "rgb(255, 255, 255)") == (scheme == "light")
    assert len(names_of(page)) == n
    # a table that is wider than the screen scrolls in itself, and its names stay
    wide = page.locator(".scroll:has(table.runs)")
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth")
    wide.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    name = page.locator("table.runs tbody th").first.bounding_box()
    assert name["x"] >= 0
    assert name["width"] >= 100  # or "simclr on photos" breaks inside its words
    colours = page.locator("table.runs .swatch").evaluate_all(
        "all => all.map(e => getComputedStyle(e).backgroundColor)"
    )
    assert len(set(colours)) == n


def test_runs_are_sorted_by_mouse_and_by_keyboard(side_by_side):
    page = side_by_side(4)
    head = page.locator("table.runs thead th", has_text="linear probe")
    assert names_of(page) == ["run0", "run1", "run2", "run3"]
    head.locator("button").click()
    assert names_of(page) == ["run3", "run2", "run1", "run0"]
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert names_of(page) == ["run0", "run1", "run2", "run3"]
    assert head.get_attribute("aria-sort") == "ascending"
    said = "Sorted by linear probe, lowest first."
    assert page.locator("#sorted").inner_text() == said
    name = page.locator("table.runs thead th").first
    name.locator("button").focus()
    for order in ("ascending", "descending"):
        page.keyboard.press("Space")
        assert name.get_attribute("aria-sort") == order
    assert names_of(page) == ["run3", "run2", "run1", "run0"]
    assert page.locator("[aria-sort]").count() == 1


def test_a_run_without_a_value_stays_at_the_end(made, opened):
    folders = [
        made(name="a", evaluation=scores(trained=0.5)),
        made(name="b", evaluation=None, finished=False),
        made(name="c", evaluation=scores(trained=0.9)),
    ]
    page = opened(write_comparison(folders))
    button = page.locator("table.runs thead button", has_text="kNN")
    for expected in (["c", "a", "b"], ["a", "c", "b"]):
        button.click()
        assert names_of(page) == expected


def test_a_run_is_hidden_by_keyboard_and_everything_follows(side_by_side):
    page = side_by_side(3)
    lines = page.locator("figure g[data-run]:visible")
    whole, columns = lines.count(), page.locator("table.scores thead th").count()
    box = page.locator("table.runs input[data-shows='1']")
    box.focus()
    page.keyboard.press("Space")
    assert lines.count() == whole * 2 // 3
    assert page.locator("figure [data-run='1']:visible").count() == 0
    assert page.locator("table.scores thead th:visible").count() == columns - 1
    assert not page.locator(".keys input[data-shows='1']").is_checked()
    assert len(names_of(page)) == 3  # the row stays, or the box would be gone
    page.locator(".keys label", has_text="run1").click()
    assert lines.count() == whole and box.is_checked()


def test_the_last_run_cannot_be_hidden(side_by_side):
    page = side_by_side(2)
    for k in (0, 1):
        page.locator(f"table.runs input[data-shows='{k}']").click()
    assert page.locator("table.runs input:checked").count() == 1
    assert page.locator("figure g[data-run='1']:visible").count() > 0


def test_the_map_of_each_run_is_there_to_be_chosen(side_by_side):
    page = side_by_side(3)
    points, which = page.locator("#points circle"), page.locator("#which")
    assert points.count() == 6 and page.locator("#plane").count() == 1
    choose(page, 2)
    which.focus()
    page.keyboard.press("ArrowDown")
    assert which.input_value() == "1" and points.count() == 6
    # the same pictures: the same one is chosen
    assert "pictures/2.png" in page.locator("#chosen .who").inner_text()
    page.keyboard.press("ArrowDown")
    assert points.count() == 9 and page.locator("#chosen .who").count() == 0
    choose(page, 8)
    assert page.locator("#chosen ol button").count() == 8
    assert is_about(colour_of(page.locator("#chosen .who .thumb")), colour(8))
    which.select_option("0")
    assert points.count() == 6
    choose(page, 4)
    assert page.locator("#chosen ol button").count() == 5
    assert page.locator(".grid-of-neighbors .query").count() > 0


def test_a_comparison_without_script_shows_a_map_and_no_idle_boxes(side_by_side):
    page = side_by_side(2, java_script_enabled=False)
    assert page.locator("#points circle").count() == 6
    assert page.locator("#which").is_hidden()
    assert page.locator("input:visible").count() == 0
    assert "Of run0:" in page.locator("main").inner_text()


def test_what_matters_is_on_a_phone_screen(shown):
    rows = [score("best epoch", 0.7), *scores()]
    page = shown(width=390, evaluation=rows)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for part in (
        page.locator("table.scores .own").first,
        page.locator("table.readings td").last,
        page.locator("dl.facts dd").last,
        page.locator("table.scores thead th").last,
    ):
        box = part.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    strip = page.locator("img.views")
    assert strip.bounding_box()["width"] >= 600  # legible, in a part that scrolls
    assert page.get_by_text("scroll sideways").is_visible()


def test_a_wide_screen_is_used(shown):
    page = shown(width=1280)
    settings, environment = (
        page.locator(f"section[aria-labelledby={name}]").bounding_box()
        for name in ("settings", "environment")
    )
    assert abs(settings["y"] - environment["y"]) < 2
    assert environment["x"] > settings["x"] + settings["width"]
    last = page.locator(".grid-of-neighbors ol").first.bounding_box()
    whole = page.locator("main").bounding_box()
    assert last["x"] + last["width"] == pytest.approx(
        whole["x"] + whole["width"], abs=2
    )
    assert page.get_by_text("scroll sideways").is_hidden()
