"""The pages as a site: built once, warnings are errors, opened in a real browser."""

import fcntl
import importlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from sphinx.util.inventory import InventoryFile
from tests.snippets import ROOT

import invariance as inv

BUILD = ("-q", "-W", "--keep-going", "-b", "html", "-c", "docs")
WIDE, NARROW = (1280, "light"), (390, "dark")
PAGES = (
    "docs/index",
    "docs/start",
    "docs/choose",
    "docs/coming_from",
    "docs/how_it_works",
    "docs/methods",
    "docs/api/index",
    "docs/api/objectives",
    "README",
)
# Links that leave the site are not followed, but their hosts are known.
HOSTS = {
    "huggingface.co",
    "github.com",
    "keepachangelog.com",
    "semver.org",
}
ROOMS = sorted(
    path.parent.name for path in (ROOT / "src").glob("invariance/*/__init__.py")
)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the site; one process builds it for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with (folder.with_suffix(".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = folder.with_suffix(".json")
        if not outcome.exists():
            outcome.write_text(json.dumps(build(folder)))
    returncode, said = json.loads(outcome.read_text())
    assert returncode == 0, said
    return folder


def build(folder):
    command = (sys.executable, "-m", "sphinx", *BUILD, ".", str(folder))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_make_builds_what_is_tested():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"sphinx-build {' '.join(BUILD)} . build/site" in makefile


class Reader(HTMLParser):
    """The ids of a page, and where it leads."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        self.ids.add(given.get("name"))
        sources = (given.get(key) for key in ("href", "src", "srcset"))
        self.links += [source for source in sources if source]


@pytest.fixture(scope="session")
def read(site):
    """Every page by its path in the site."""
    paths = sorted(site.rglob("*.html"))
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return {
        path.resolve(): Reader(text)
        for path, text in texts.items()
        if "_static" not in path.parts
    }


def test_links_pictures_and_anchors_lead_somewhere(read):
    lost = []
    for path, page in read.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            anchor = unquote(url.fragment)
            if not target.is_file() or (
                anchor and target in read and anchor not in read[target].ids
            ):
                lost.append(f"{path.name}: {link}")
    assert not lost


def test_links_that_leave_the_site_are_well_formed(read):
    urls = {link for page in read.values() for link in page.links}
    outside = {url for url in map(urlsplit, urls) if url.scheme or url.netloc}
    outside = {url for url in outside if url.scheme not in ("data", "javascript")}
    assert {url.geturl() for url in outside if url.scheme != "https"} == set()
    assert {url.hostname for url in outside} <= HOSTS


def test_pictures_of_the_readme_are_in_the_repository():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', page)
    names = {name for pair in pictures for name in pair if name}
    assert names
    assert {name for name in names if not (ROOT / name).is_file()} == set()


# ---------------------------------------------------------------------- the reference


@pytest.fixture(scope="session")
def documented(site):
    """The names that the site has an entry for."""
    with (site / "objects.inv").open("rb") as file:
        # a dict up to Sphinx 8.2
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    return {
        name
        for kind, names in getattr(inventory, "data", inventory).items()
        if kind.startswith("py:")
        for name in names
    }


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_in_the_reference(documented, room):
    names = importlib.import_module(f"invariance.{room}").__all__
    missing = {name for name in names if f"invariance.{room}.{name}" not in documented}
    assert missing == set()


def test_every_name_of_the_package_is_in_the_reference(documented):
    homes = {f"invariance.{home}.{name}" for name, home in inv._HOME.items()}
    assert homes - documented == set()


def test_signatures_are_for_readers(site):
    for path in sorted((site / "docs" / "api").glob("*.html")):
        text = re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8"))
        wrong = r" at 0x[0-9a-f]|~[a-z]+\.|Annotated\["
        assert not re.search(wrong, text), path.name


# ------------------------------------------------------------------------ the browser


@pytest.fixture
def visit(browser, site):
    """Open a page and return it, having seen that nothing went wrong."""
    opened = []

    def open_page(name, width=1280, scheme="light"):
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        page.set_default_timeout(120_000)  # a machine may be busy
        opened.append(page)
        wrong = []
        page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(request.url))
        page.on("request", lambda r: inside(r.url) or wrong.append(r.url))
        page.goto(f"{site.as_uri()}/{name}", wait_until="load")
        page.wait_for_function("window.MathJax?.startup?.promise ?? true")
        page.wrong = wrong
        return page

    def inside(url):
        return url.startswith((site.as_uri(), "data:", "blob:"))

    yield open_page
    for page in opened:
        page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_wide_and_narrow_light_and_dark(visit, name):
    for width, scheme in (WIDE, NARROW):
        page = visit(f"{name}.html", width, scheme)
        assert page.wrong == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        theme = page.evaluate("document.documentElement.dataset.theme")
        assert theme == scheme
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth)"
        assert page.evaluate(f"{broken}.map(i => i.src)") == []


def test_formulas_are_set(visit):
    page = visit("docs/how_it_works.html")
    assert page.locator("mjx-container").count() > 1
    assert page.locator("mjx-merror").count() == 0


def test_the_sidebar_leads_to_every_page(visit):
    page = visit("docs/glossary.html")
    titles = page.locator(".bd-docs-nav a").all_inner_texts()
    assert {"How it works", "Reference", "Captions"} <= {t.strip() for t in titles}
    assert page.locator(".bd-docs-nav a.current").inner_text().strip() == "Glossary"


def test_search_finds_pages_without_a_server(visit):
    page = visit("search.html?q=temperature")
    page.wait_for_selector("#search-results li a")
    found = page.locator("#search-results li a").all_inner_texts()
    assert len(found) > 3
    assert page.wrong == []
