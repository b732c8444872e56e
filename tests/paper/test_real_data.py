"""The three data sets of the paper, where PROXLIN_DATA names a folder that has them."""

import os

import pytest

from proxlin.errors import DataError
from proxlin.paper.cell import run_cell
from proxlin.paper.grid import PAPER_DATASETS, Cell
from proxlin.paper.metrics import measure
from proxlin.paper.workload import fresh_net, workload

pytestmark = pytest.mark.skipif(
    "PROXLIN_DATA" not in os.environ, reason="PROXLIN_DATA does not name a folder with the data"
)


def cell(dataset, **changes):
    given = {"dataset": dataset, "outliers": 0.0, "p": 1.0, "method": "sgd", "rows": 200}
    return Cell(**{**given, "seconds": None, "steps": 3, **changes})


def load(single):
    try:
        return workload(single)
    except DataError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("dataset", PAPER_DATASETS)
def test_a_cell_of_each_data_set_runs(dataset):
    load(cell(dataset))
    record = run_cell(cell(dataset))
    assert record["iterations"] == 3
    assert record["rows"] == {"train": 200, "outliers": 0, "test": 200}


@pytest.mark.parametrize(("dataset", "size"), [("mnist", 741), ("scm1d", 4468)])
def test_the_nets_have_the_papers_number_of_parameters(dataset, size):
    load(cell(dataset))
    assert sum(tensor.numel() for tensor in fresh_net(cell(dataset)).parameters()) == size


@pytest.mark.slow
def test_an_all_zero_output_scores_what_sgd_has_in_table_1():
    """MNIST without outliers: the paper's SGD ended at the all-zero output, so these must agree."""
    single = cell("mnist", rows=None)
    work = load(single)
    net = fresh_net(single)
    problem = work.problem(net, 1.0)
    values = {name: t.detach().clone() for name, t in net.named_parameters()}
    values["decoder.2.weight"].zero_()
    values["decoder.2.bias"].fill_(-60.0)  # softplus(-60) is nothing beside a pixel
    found = measure(work, problem, problem.layout.join(values), 1.0)
    assert (found["f_noutl"], found["f_test"]) == pytest.approx((102.44, 103.89), abs=0.01)
