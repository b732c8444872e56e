"""The reports that the commands write, opened in a browser."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from proxlin.paper.catalog import experiment
from proxlin.paper.demo.story import demo_report
from proxlin.paper.demo.training import LOSSES, SharePoint, run_demo
from proxlin.paper.reproduction import reproduce
from proxlin.report import write_report
from tests.forks import together
from tests.problem.parallel.commands import command


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    small = experiment(
        "table1", datasets=("digits",), rows=60, steps=4, methods=("sgd", "adam", "mse"),
        outliers=(0.0, 0.2), exponents=(1.0, 2.0),
    )  # fmt: skip
    return reproduce(small, tmp_path_factory.mktemp("reproduced")).files[-1]


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory):
    points = [SharePoint(name, ratio, 0.1 + ratio) for name in LOSSES for ratio in (0.0, 0.2)]
    page = demo_report(run_demo(seconds=0.2), points, "proxlin demo")
    return write_report(page, tmp_path_factory.mktemp("demo") / "report.html")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """What `proxlin fit` writes for a table with names and values that try to break the page."""
    folder = tmp_path_factory.mktemp("fitted")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["<b>a</b>", "$x$ & y", "z"])
    table["price"] = table.sum(axis=1) + 0.1 * rng.normal(size=60)
    table.loc[:5, "price"] = 1000.0
    table.to_csv(folder / "table.csv", index=False)
    fit = ("fit", folder / "table.csv", "--targets", "price", "--model", "additive")
    ((code, _, error),) = together(command, *fit, "--out", folder / "model", ranks=1, folder=folder)
    assert code == 0, error
    return folder / "model" / "report.html"


@pytest.fixture
def path(request):
    return request.getfixturevalue(request.param)


REPORTS = ["reproduced", "demonstrated", "fitted"]
UNFOLD = "() => document.querySelectorAll('details').forEach((folded) => { folded.open = true })"


@pytest.mark.parametrize("path", REPORTS, indirect=True)
def test_the_report_is_quiet_whole_and_fits_a_phone(visit, path):
    one = visit(path, width=390, dark=True)
    one.ask(UNFOLD)
    assert one.ask("() => document.documentElement.scrollWidth") <= 390
    drawings = one.page.locator("figure.picture svg")
    assert drawings.count() >= 2
    for place in range(drawings.count()):
        box = drawings.nth(place).bounding_box()
        assert box["width"] > 150
        assert box["height"] > 40
    captions = one.ask(
        "() => [...document.querySelectorAll('figcaption')].map((one) => one.innerText.trim())"
    )
    assert all(captions)
    one.page.set_viewport_size({"width": 1280, "height": 900})
    assert one.ask("() => document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("path", REPORTS, indirect=True)
def test_every_table_sorts_and_every_link_of_the_contents_leads_to_its_section(visit, path):
    one = visit(path)
    one.ask(UNFOLD)
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
