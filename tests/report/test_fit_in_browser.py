"""The report of a fit as its reader has it."""

from __future__ import annotations

import pytest

from proxlin.app.tabular import FitSettings, RawTable, fit_table
from proxlin.app.tabular.reporting.fit_report import fit_report
from proxlin.app.tabular.reporting.fit_summary import FitSummary
from tests.app.tabular.houses import houses

PICTURES = "() => document.querySelectorAll('figure.picture svg').length"


@pytest.fixture(scope="module", params=["price", None], ids=["regressor", "autoencoder"])
def report(request, tmp_path_factory):
    targets = () if request.param is None else (request.param,)
    frame = houses().rename(columns={"area": "an area with a name that is longer than a phone"})
    settings = FitSettings(targets=targets, seconds=1.0)
    summary = FitSummary.of(fit_table(RawTable(frame), settings), "house.csv")
    path = tmp_path_factory.mktemp("fit") / "report.html"
    path.write_text(fit_report(summary, "proxlin fit house.csv"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_quiet_has_its_pictures_and_does_not_scroll_sideways(visit, report, width):
    one = visit(report, width=width, dark=width < 500)
    assert one.ask(PICTURES) >= 1
    assert one.ask("() => document.documentElement.scrollWidth") <= width


def test_the_worst_rows_sort_by_number(visit, report):
    one = visit(report)
    table = one.page.locator("figure.table", has_text="Training rows that fit worst")
    table.get_by_role("columnheader", name="row", exact=False).first.get_by_role("button").click()
    numbers = [int(cell) for cell in table.locator("tbody tr > :first-child").all_inner_texts()]
    assert len(numbers) == 20
    assert numbers == sorted(numbers)
