"""Reports of made-up runs, and a way to look at them."""

from pathlib import Path

import pytest
from tests.made_runs import made

from invariance.report import write_report

__all__ = ["made"]


@pytest.fixture
def page(made):
    """The text of the report of a made-up run."""

    def make(defaults=None, **changes):
        return write_report(made(**changes), defaults).read_text(encoding="utf-8")

    return make


@pytest.fixture
def opened(browser):
    """Open a file, or a page of this machine, as a reader would.

    Errors, alerts and requests to elsewhere fail the test.
    """
    contexts, trouble = [], []

    def open_file(path, *, width=1200, height=800, **settings):
        served = str(path).startswith("http://127.0.0.1:")
        place = str(path) if served else Path(path).resolve().as_uri()
        origin = place.split("#")[0] if served else "file:"
        size = {"width": width, "height": height}
        still = {"reduced_motion": "reduce"}  # or a click could meet a moving page
        context = browser.new_context(viewport=size, **still | settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)

        def alerted(dialog):
            trouble.append(f"alert: {dialog.message}")
            dialog.dismiss()

        def said(message):
            if message.type in ("error", "warning"):
                trouble.append(f"console: {message.text}")

        def asked(request):
            if not request.url.startswith((origin, "data:")):
                trouble.append(f"request: {request.url}")

        page.on("dialog", alerted)
        page.on("console", said)
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("request", asked)
        page.goto(place)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert trouble == []
