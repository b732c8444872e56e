"""The reports that the commands write, opened in a browser."""

from __future__ import annotations

import pytest

from proxlin.experiments.catalog import exhibit
from proxlin.experiments.reproduce import reproduce


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    small = exhibit(
        "table1", datasets=("digits",), rows=60, steps=4, methods=("sgd", "adam", "mse"),
        outliers=(0.0, 0.2), exponents=(1.0, 2.0),
    )  # fmt: skip
    return reproduce(small, tmp_path_factory.mktemp("reproduced")).files[-1]


@pytest.fixture
def path(request):
    return request.getfixturevalue(request.param)


REPORTS = ["reproduced"]


@pytest.mark.parametrize("path", REPORTS, indirect=True)
def test_the_report_is_quiet_whole_and_fits_a_phone(visit, path):
    one = visit(path, width=390, dark=True)
    assert one.ask("() => document.documentElement.scrollWidth") <= 390
    drawings = one.page.locator("figure.picture svg")
    assert drawings.count() >= 4
    for place in range(drawings.count()):
        box = drawings.nth(place).bounding_box()
        assert box["width"] > 150
        assert box["height"] > 60
    captions = one.ask(
        "() => [...document.querySelectorAll('figcaption')].map((one) => one.innerText.trim())"
    )
    assert all(captions)
    one.page.set_viewport_size({"width": 1280, "height": 900})
    assert one.ask("() => document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("path", REPORTS, indirect=True)
def test_every_table_sorts_and_every_link_of_the_contents_leads_to_its_section(visit, path):
    one = visit(path)
    for table in one.page.locator("table.sortable").all():
        heads = table.locator("th button")
        if heads.count() == 0:
            continue
        heads.last.click()
        assert table.locator("th[aria-sort=ascending]").count() == 1
    for link in one.page.locator("nav a").all():
        link.click()
        assert one.page.locator(link.get_attribute("href")).is_visible()


@pytest.mark.parametrize("path", REPORTS, indirect=True)
def test_the_report_can_be_printed(visit, path):
    one = visit(path)
    assert one.page.pdf(format="A4").startswith(b"%PDF")
