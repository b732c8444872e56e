"""Pages of the site as a reader has them: by search, on a phone, in the dark."""

from __future__ import annotations

import pytest

KEY_PAGES = ("", "start/scikit-learn/", "theory/", "gallery/", "api/minimize/", "regression/")


@pytest.fixture
def visit(browser, address):
    """`visit(page, width=390, dark=True)` opens a page; afterwards it must have been quiet."""
    opened = []

    def open_page(page, *, width=1280, dark=False):
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab, complaints = context.new_page(), []
        tab.set_default_timeout(60_000)
        tab.on(
            "console",
            lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on(
            "request",
            lambda r: None if r.url.startswith((address, "data:")) else complaints.append(r.url),
        )
        opened.append((context, complaints))
        tab.goto(address + page)
        return tab

    yield open_page
    for context, complaints in opened:
        context.close()
        assert complaints == []


@pytest.mark.parametrize("page", KEY_PAGES)
def test_nothing_scrolls_sideways(visit, page):
    tab = visit(page, width=1280)
    for width in (1280, 360):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_search_finds_a_name_and_leads_to_it(visit):
    tab = visit("")
    tab.locator("input.md-search__input").click()
    tab.keyboard.type("stationarity")
    first = tab.locator(".md-search-result__item a").first
    first.wait_for()
    first.click()
    tab.wait_for_url(lambda url: "?h=" in url)


def test_the_dark_is_dark(visit):
    light, dark = (
        visit("theory/", dark=dark).evaluate(
            "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
            ".slice(0, 3).reduce((sum, part) => sum + Number(part), 0)"
        )
        for dark in (False, True)
    )
    assert light > 600
    assert dark < 200


def test_code_is_coloured_and_formulas_have_a_size(visit):
    tab = visit("theory/")
    tall = tab.evaluate("() => document.querySelector('math[display=block]').clientHeight")
    assert tall > 30
    tab = visit("start/scikit-learn/")
    colours = tab.evaluate(
        "() => new Set([...document.querySelectorAll('.highlight code span')]"
        ".map((e) => getComputedStyle(e).color)).size"
    )
    assert colours >= 4
