import pytest

from proxlin.errors import InvalidInputError
from proxlin.methods import MBO, SGD
from proxlin.paper.catalog import EXPERIMENTS, experiment
from proxlin.paper.grid import METHOD_SETTINGS, METHODS, Cell, Grid, expand, family, method_settings


def cell(**changes):
    return Cell(**{"dataset": "digits", "outliers": 0.1, "p": 1.0, "method": "sgd", **changes})


def test_the_papers_table_has_45_cells_for_each_method_and_15_for_squared_error():
    counts = {method: len(Grid(methods=(method,)).cells()) for method in METHODS}
    assert counts == {
        **{"probed": 45, "mbo-sadm": 45, "mbo-sgd": 45, "sgd": 45},
        **{"adam": 3 * 45, "mse": 15},
    }
    assert len(Grid().cells()) == sum(counts.values())


def test_no_two_cells_share_a_name_on_any_axis():
    cells = [
        single
        for seconds, steps in ((60.0, None), (6.0, None), (None, 60), (60.0, 60))
        for rows in (None, 60)
        for single in Grid(
            seconds=seconds, steps=steps, rows=rows, seeds=(0, 1), exponents=(1.0, 1.5, 1.25)
        ).cells()
    ]
    assert len({single.name for single in cells}) == len(set(cells)) == len(cells)


def test_values_given_twice_are_run_once():
    assert len(Grid(outliers=(0.0, 0.0), methods=("probed", "probed")).cells()) == 9


def test_every_variant_belongs_to_a_method_of_the_tables():
    assert set(expand(METHODS)) == set(METHOD_SETTINGS)
    assert {family(name) for name in METHOD_SETTINGS} == set(METHODS)


def test_appendix_f():
    for images, tolerance, rate in ((True, 0.1, 1e-5), (False, 0.001, 1e-3)):
        sadm, inner = method_settings("mbo-sadm", images), method_settings("mbo-sgd", images)
        assert isinstance(sadm, MBO)
        assert isinstance(inner, MBO)
        found = sadm.solver.max_steps, sadm.solver.batch_size, sadm.solver.tolerance
        assert found == (200, 8, tolerance)
        assert sadm.solver.decay == 0.95
        found = inner.solver.learning_rate, inner.solver.momentum, inner.solver.max_steps
        assert found == (rate, 0.9, 500)
        assert method_settings("sgd", images) == SGD(learning_rate=1e-6, momentum=0.9, batch_size=8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dataset": "mnits"},
        {"outliers": 1.0},
        {"outliers": -0.1},
        {"p": 0.5},
        {"p": "mse"},
        {"method": "mse"},
        {"method": "adam"},
        {"seed": -1},
        {"seconds": 0.0},
        {"seconds": None},
        {"steps": 0},
        {"rows": 1},
    ],
    ids=str,
)
def test_a_cell_refuses_what_cannot_be_run(wrong):
    with pytest.raises(InvalidInputError):
        cell(**wrong)


def test_the_config_changes_with_each_field():
    configs = [
        cell(**change).config()
        for change in (
            *({}, {"dataset": "mnist"}, {"outliers": 0.2}, {"p": 2.0}, {"method": "probed"}),
            *({"seed": 1}, {"seconds": 1.0}, {"steps": 3}, {"rows": 9}),
        )
    ]
    assert all(a != b for i, a in enumerate(configs) for b in configs[:i])


def test_axes_replace_those_of_the_experiment_and_steps_stand_alone():
    grid = experiment("fig2", exponents=(1.0,), steps=7).grid
    assert grid == Grid(
        datasets=("mnist",),
        outliers=(0.0,),
        exponents=(1.0,),
        methods=("probed", "mbo-sadm", "mbo-sgd", "sgd", "adam"),
        seconds=None,
        steps=7,
    )
    assert experiment("fig2", steps=7, seconds=3.0).grid.seconds == 3.0


def test_accuracy_needs_images():
    with pytest.raises(InvalidInputError, match=r"images with classes.*got 'scm1d'"):
        experiment("accuracy", datasets=("scm1d",))


def test_unknown_experiments_are_refused_with_the_nearest_name():
    with pytest.raises(InvalidInputError, match="Did you mean 'table1'"):
        experiment("tabel1")
    assert list(EXPERIMENTS) == ["table1", "accuracy", "fig1", "fig2", "fig3", "fig4", "figA"]
