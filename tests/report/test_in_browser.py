"""Reports as a reader has them: in a browser, on a phone, in the dark, by keyboard, on paper."""

from __future__ import annotations

import re

import pytest

from proxlin.report import write_report
from tests.report.contrast import contrast
from tests.report.samples import everything

COLUMN = """([caption, column]) => {
  const figure = [...document.querySelectorAll("figure.table")]
    .find((one) => one.querySelector("figcaption").textContent === caption);
  return [...figure.querySelectorAll("tbody tr")].map((row) => row.cells[column].innerText);
}"""

# Colour of the text and of the nearest ground behind it, for everything that shows words.
COLOURS = """() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest("svg") && e.tagName !== "SCRIPT" && e.checkVisibility()
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
  .map((e) => {
    let ground = e;
    while (ground && /rgba\\(.*, 0\\)/.test(getComputedStyle(ground).backgroundColor))
      ground = ground.parentElement;
    return [getComputedStyle(e).color, getComputedStyle(ground || document.body).backgroundColor,
            e.textContent.trim().slice(0, 30)];
  })"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(everything(), tmp_path_factory.mktemp("report") / "report.html")


def hexadecimal(colour):
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", colour)[:3])


def test_the_page_is_quiet_and_has_its_pictures(visit, report):
    one = visit(report)
    assert one.page.title().startswith("A report on")
    boxes = one.ask(
        "() => [...document.querySelectorAll('figure.picture svg')].map((svg) => {"
        " const box = svg.getBoundingClientRect();"
        " return [box.width, box.height, svg.querySelectorAll('path, use').length]; })"
    )
    assert len(boxes) == 5
    assert all(width > 200 and height > 100 and parts > 10 for width, height, parts in boxes)


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
def test_nothing_scrolls_sideways(visit, report, width):
    one = visit(report, width=width)
    assert one.ask("() => document.documentElement.scrollWidth") <= width


def test_wide_tables_scroll_in_their_own_box_by_keyboard(visit, report):
    one = visit(report, width=390)
    box = one.page.locator("figure.table .scroll").nth(1)
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    box.focus()
    one.page.keyboard.press("ArrowRight")
    one.page.wait_for_function("(box) => box.scrollLeft > 0", arg=box.element_handle())


def test_a_click_sorts_numbers_as_numbers_and_empty_fields_last(visit, report):
    one = visit(report)
    head = one.page.locator("figure.table").nth(0).get_by_role("columnheader", name="rows")
    head.get_by_role("button").click()
    assert one.ask(COLUMN, ["Numbers", 1]) == ["-1", "9", "10", "1,797"]
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert one.ask(COLUMN, ["Numbers", 1]) == ["1,797", "10", "9", "-1"]
    assert head.get_attribute("aria-sort") == "descending"
    times = one.page.locator("figure.table").nth(0).get_by_role("columnheader", name="time")
    for expected in (["2 s", "11 s", "–", "–"], ["11 s", "2 s", "–", "–"]):
        times.get_by_role("button").click()
        assert one.ask(COLUMN, ["Numbers", 3]) == expected
    assert head.get_attribute("aria-sort") is None


def test_the_keyboard_alone_sorts_and_turns_the_lights_off(visit, report):
    one = visit(report)
    for key, word in (("Enter", "ten"), ("Space", "<script>")):
        for _ in range(80):
            one.page.keyboard.press("Tab")
            if one.ask("() => document.activeElement.textContent") == "name":
                break
        one.page.keyboard.press(key)
        assert one.ask(COLUMN, ["Numbers", 0])[-1].startswith(word)
        one.ask("() => document.activeElement.blur()")
    for _ in range(80):
        one.page.keyboard.press("Tab")
        if one.ask("() => document.activeElement.id") == "theme":
            break
    before = one.ask("() => getComputedStyle(document.body).backgroundColor")
    one.page.keyboard.press("Enter")
    assert one.ask("() => getComputedStyle(document.body).backgroundColor") != before
    assert one.page.locator("#theme").inner_text() == "Light"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(visit, report, dark):
    one = visit(report, dark=dark)
    pairs = one.ask(COLOURS)
    assert len(pairs) > 80
    for text, ground, words in pairs:
        assert contrast(hexadecimal(text), hexadecimal(ground)) >= 4.5, words
    page = hexadecimal(one.ask("() => getComputedStyle(document.body).backgroundColor"))
    assert (contrast(page, "#ffffff") > 10) == dark


def test_words_and_lines_of_pictures_change_with_the_lights(visit, report):
    fills = []
    for dark in (False, True):
        one = visit(report, dark=dark)
        fills.append(
            one.ask("() => getComputedStyle(document.querySelector('figure.picture svg')).fill")
        )
        paper = one.ask("() => getComputedStyle(document.querySelector('section')).backgroundColor")
        assert contrast(hexadecimal(fills[-1]), hexadecimal(paper)) >= 4.5
    assert fills[0] != fills[1]


def test_paper_is_white_and_shows_every_column(visit, report):
    one = visit(report, dark=True)
    one.page.emulate_media(media="print", color_scheme="dark")
    ink = one.ask("() => getComputedStyle(document.querySelector('td')).color")
    assert contrast(hexadecimal(ink), "#ffffff") >= 7
    assert one.ask(
        "() => [...document.querySelectorAll('.scroll')]"
        ".every((box) => getComputedStyle(box).overflowX === 'visible')"
    )
    one.page.set_viewport_size({"width": 688, "height": 971})  # A4 without its margins
    assert one.ask("() => document.documentElement.scrollWidth") <= 688
    printed = one.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 3


def test_without_scripts_the_page_is_whole(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.resolve().as_uri())
    assert page.locator("#theme").is_hidden()
    assert page.locator("table").count() == 3
    assert page.locator("th button").count() == 0
    context.close()
