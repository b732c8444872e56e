"""Arguments from strangers: whatever they are, what comes out is an answer or one of our errors."""

import inspect
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import nn

import proxlin
from proxlin import Problem, minimize
from proxlin.errors import InvalidInputError
from proxlin.prox import norm, project_ball, project_simplex, prox_norm
from tests.fuzz.tally import answered_or_refused

pytestmark = [
    pytest.mark.slow,
    # Extreme numbers overflow on the way to a refusal; that is what is tried here.
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning"),
]
FUZZ = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)

NUMBERS = [
    0, 1, -1, 2, 3, 2**31, 2**63, 2**64, -(2**64), 10**400,
    0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 1e-320, 1e-30, 1e30, 1e308, float("inf"), float("-inf"),
    float("nan"), 1j, True, False, np.float32(0.1), np.int8(-3), np.bool_(True), Decimal("0.1"),
    Fraction(1, 3),
]  # fmt: skip
WORDS = ["", "auto", "mse", "ridge", "adam", "cuda:99", "meta", "nicht", "\0", "x" * 3000, b"b"]
OTHERS = [
    None, (), [], {}, (1, 2), [0.1, 0.9], [None], {"a": 1}, {1, 2}, int, object(), range(3),
    np.array([]), np.array(0.5), np.array(["a"]), np.ones((2, 2)), torch.tensor(0.5),
    torch.tensor([]), torch.ones(2, 2), pd.Series([1.0]), nn.ReLU(), nn.Linear(3, 3),
    proxlin.Ridge(0.1), proxlin.NonNegative(), proxlin.Adam(),
]  # fmt: skip
ODD = st.sampled_from([*NUMBERS, *WORDS, *OTHERS])
ODD_NUMBER = st.sampled_from(NUMBERS) | st.floats() | st.integers()

TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8,
    torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip
FILLS = ["normal", "zero", "one", "huge", "tiny", "nan", "inf", "one huge"]


def filled(shape, fill, seed=0):
    """A float64 array of the shape with ordinary or extreme numbers."""
    numbers = np.random.default_rng(seed).normal(size=shape)
    if fill == "one huge":
        numbers.flat[:1] = 1e300
    elif fill in ("nan", "inf"):
        numbers.flat[:1] = float(fill)
    elif fill != "normal":
        numbers = numbers * {"zero": 0.0, "one": 0.0, "huge": 1e300, "tiny": 1e-300}[fill]
        numbers += fill == "one"
    return numbers


SHAPES = st.sampled_from(
    [(), (0,), (1,), (12,), (0, 3), (12, 0), (1, 3), (2, 3), (12, 1), (12, 3), (12, 4), (11, 3),
     (12, 3, 1), (12, 1, 3, 3)]
)  # fmt: skip
USUAL = st.just((12, 3))


@st.composite
def tensors(draw):
    array = filled(draw(USUAL | SHAPES), draw(st.just("normal") | st.sampled_from(FILLS)))
    tensor = torch.from_numpy(np.asarray(array)).to(
        draw(st.just(torch.float32) | st.sampled_from(TYPES))
    )
    return tensor.to_sparse() if tensor.ndim and draw(st.integers(0, 20)) == 20 else tensor


@st.composite
def tables(draw):
    """Tables as scikit-learn users pass them: arrays of any type, frames, lists, tensors."""
    array = filled(draw(USUAL | SHAPES), draw(st.just("normal") | st.sampled_from(FILLS)))
    form = draw(
        st.sampled_from(
            ["plain", "float32", "int", "bool", "object", "text", "complex", "list", "tensor",
             "frame", "mixed", "NA", "dates", "structured", "masked", "other"]
        )
    )  # fmt: skip
    if form in ("frame", "mixed", "NA", "dates"):
        frame = pd.DataFrame(array if array.ndim == 2 else filled((12, 3), "normal"))
        if form == "mixed" and frame.size:
            frame = frame.astype(object)
            frame.iloc[0, 0] = draw(ODD.filter(np.isscalar))
        if form == "NA" and frame.shape[1]:
            frame = frame.astype("Float64")
            frame.iloc[:1] = pd.NA
        if form == "dates":
            frame["when"] = pd.date_range("2020", periods=len(frame))
        return frame
    if form == "other":
        return draw(ODD)
    return {
        "plain": lambda: array,
        "float32": lambda: array.astype(np.float32),
        "int": lambda: np.nan_to_num(array, posinf=0, neginf=0).clip(-9, 9).astype(int),
        "bool": lambda: array > 0,
        "object": lambda: array.astype(object),
        "text": lambda: array.astype(str),
        "complex": lambda: array + 1j,
        "list": array.tolist,
        "tensor": lambda: torch.from_numpy(np.asarray(array)),
        "structured": lambda: np.zeros(3, dtype=[("a", float), ("b", int)]),
        "masked": lambda: np.ma.masked_invalid(array),
    }[form]()


BUDGETS = {"max_iter": 2, "max_seconds": 0.3}


def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))


DATA = st.one_of(
    tensors(), st.tuples(tensors(), tensors()), st.lists(tensors(), max_size=3), tables(), ODD
)


@FUZZ
@given(data=DATA, p=st.just(1.0) | ODD_NUMBER, method=st.sampled_from(["adam", "probed"]))
@example(data=torch.ones(12, 3, dtype=torch.int64), p=1.0, method="adam")
@example(data=torch.ones(12, 3, dtype=torch.complex64), p=1.0, method="adam")
@example(data=torch.ones(12, 0), p=1.0, method="adam")
def test_data_of_a_problem(data, p, method):
    with answered_or_refused():
        problem = Problem(module(), data, p)
        result = minimize(problem, method, **BUDGETS)
        assert torch.isfinite(result.theta).all()


@FUZZ
@given(data=st.data())
@example(data=None)
def test_arguments_of_minimize(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)  # an odd checkpoint folder is made here
    names = [
        n
        for n in inspect.signature(minimize).parameters
        if n not in ("problem", "progress", "polish")
    ]
    given_arguments = {"seed": 2**64} if data is None else odd_arguments(data.draw, names)
    x = torch.from_numpy(filled((12, 3), "normal")).float()
    with answered_or_refused():
        result = minimize(Problem(module(), x), **{"method": "adam", **BUDGETS, **given_arguments})
        assert torch.isfinite(result.theta).all()


def odd_arguments(draw, names):
    """One or two arguments to replace; one of the budgets stays, or a run would have no end."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    if {"max_iter", "max_seconds"} <= set(chosen):
        chosen.remove("max_seconds")
    return {name: draw(ODD, label=name) for name in chosen}


ESTIMATORS = {
    "RobustRegressor": {},
    "RobustAutoencoder": {"method": "adam", **BUDGETS},
    "RobustFactorization": BUDGETS,
    "RobustNMF": BUDGETS,
    "RobustFeatureSelector": {},
    "RobustImputer": {},
    "RobustPCA": {},
    "RobustOutlierDetector": {},
}
NET = {"hidden": (4,), "method": "adam", **BUDGETS}


def used(model, x, y):
    model.fit(x, y)
    for name in ("predict", "transform", "score_samples"):
        if hasattr(model, name):
            assert np.isfinite(np.asarray(getattr(model, name)(x), dtype=float)).all()


@FUZZ
@given(kind=st.sampled_from(sorted(ESTIMATORS)), x=tables(), y=tables())
def test_tables_of_estimators(kind, x, y):
    with answered_or_refused():
        used(getattr(proxlin, kind)(**ESTIMATORS[kind]), x, y)


@FUZZ
@given(kind=st.sampled_from([*ESTIMATORS, "net"]), data=st.data())
def test_settings_of_estimators(tmp_path, monkeypatch, kind, data):
    monkeypatch.chdir(tmp_path)
    fixed = NET if kind == "net" else ESTIMATORS[kind]
    make = getattr(proxlin, "RobustRegressor" if kind == "net" else kind)
    changed = odd_arguments(data.draw, sorted(inspect.signature(make).parameters))
    x = np.abs(filled((24, 3), "normal"))
    with answered_or_refused():
        used(make(**{**fixed, **changed}), x, x[:, :2])


# Nothing is drawn or written here, and so many `repeats` are wanted if they are asked for.
# `misfits` takes residuals that our own code makes.
LEFT_ALONE = ("fit", "set_", "get_", "_", "plot", "diagnostics", "export", "partial_fit", "misfits")


@cache
def fitted(kind):
    x = np.abs(filled((24, 3), "normal"))
    return getattr(proxlin, kind)(**ESTIMATORS[kind]).fit(x, x[:, :1])


@FUZZ
@given(kind=st.sampled_from(sorted(ESTIMATORS)), data=st.data())
def test_methods_of_fitted_estimators(kind, data):
    model = fitted(kind)
    methods = dict(inspect.getmembers(model, inspect.ismethod))
    names = [name for name in methods if not name.startswith(LEFT_ALONE)]
    method = methods[data.draw(st.sampled_from(names), label="method")]
    parameters = inspect.signature(method).parameters
    arguments = {name: data.draw(tables(), label=name) for name in parameters if name in "Xy"}
    others = [name for name in parameters if name not in ("X", "y", "repeats", "progress")]
    odd = data.draw(st.lists(st.sampled_from(others), max_size=1)) if others else []
    with answered_or_refused():
        method(**arguments, **{name: data.draw(ODD, label=name) for name in odd})


SETTINGS = [
    "ADMM", "MBO", "SADM", "SGD", "Adam", "Armijo", "Ball", "Box", "Checkpoints", "ElasticNet",
    "GroupLasso", "InnerADMM", "Lasso", "LpNorm", "NonNegative", "Pinball", "Probed", "Ridge",
    "Simplex", "Subgradient", "Tied", "EarlyStopping", "Diagonal", "Euclidean",
]  # fmt: skip


@FUZZ
@given(kind=st.sampled_from(SETTINGS), data=st.data())
def test_settings_are_refused_at_once_or_make_a_run(tmp_path, monkeypatch, kind, data):
    monkeypatch.chdir(tmp_path)
    make = getattr(proxlin, kind)
    parameters = inspect.signature(make).parameters
    names = [n for n, parameter in parameters.items() if parameter.kind != parameter.VAR_POSITIONAL]
    needed = [n for n in names if parameters[n].default is inspect.Parameter.empty]
    more = data.draw(st.lists(st.sampled_from(names), max_size=2)) if names else []
    x = torch.from_numpy(filled((12, 3), "normal")).float()
    with answered_or_refused():
        part = make(**{name: data.draw(ODD, label=name) for name in {*needed, *more}})
        role = {"regularizer": part} if isinstance(part, proxlin.terms.Regularizer) else {}
        role = {"constraint": part} if isinstance(part, proxlin.terms.Constraint) else role
        role = {"loss": part} if kind == "Pinball" else role
        problem = Problem(module(), x, **role)
        if hasattr(part, "candidates"):
            minimize(problem, part, **BUDGETS)
        elif role:
            minimize(problem, "adam", **BUDGETS)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("SGD", {"momentum": Fraction(1, 3)}),
        ("Adam", {"epsilon": 2**64}),
        ("MBO", {"solver": torch.tensor(0.5)}),
    ],
    ids=str,
)
def test_methods_that_once_brought_other_errors(kind, setting):
    with answered_or_refused():
        minimize(Problem(module(), torch.ones(12, 3)), getattr(proxlin, kind)(**setting), **BUDGETS)


@pytest.mark.parametrize(
    "role",
    [
        {"regularizer": proxlin.LpNorm(1.0, 10**400)},
        {"constraint": proxlin.Ball(1.0, 10**400)},
    ],
    ids=lambda role: next(iter(role)),
)
def test_terms_that_once_brought_other_errors(role):
    with answered_or_refused():
        minimize(Problem(module(), torch.ones(12, 3), **role), "adam", **BUDGETS)


@pytest.mark.parametrize(("rows", "far"), [(12, 1.0), (24, 1e30)])
def test_targets_without_end_beyond_the_others(rows, far):
    """A row that is off by 1e300 of what the others are had no square."""
    x, y = filled((rows, 3), "normal"), filled((rows, 2), "tiny", seed=1)
    x[0, 0], y[0, 0] = 1e30, far
    with answered_or_refused():
        used(proxlin.RobustRegressor(), x, y)
    with answered_or_refused():
        used(proxlin.RobustRegressor(), y, y)


@pytest.mark.parametrize("width", [2**31, 2**63])
def test_nets_beyond_all_memory_are_refused(width):
    x = np.ones((12, 3))
    with pytest.raises(InvalidInputError, match="at most 1,073,741,824 weights"):
        proxlin.RobustAutoencoder(width, **BUDGETS).fit(x)
    with pytest.raises(InvalidInputError, match="at most 1,073,741,824 weights"):
        proxlin.RobustAutoencoder(width, image_shape=(1, 3, 1), **BUDGETS).fit(x)
    with pytest.raises(InvalidInputError, match="at most 1,073,741,824 weights"):
        proxlin.RobustRegressor(hidden=(width,), **BUDGETS).fit(x, x)


def test_widths_that_are_no_list_are_refused():
    with answered_or_refused():
        proxlin.RobustRegressor(hidden=np.array(0.5)).fit(np.ones((12, 3)), np.ones(12))


@FUZZ
@given(v=tensors() | ODD, step=ODD | st.floats(), p=ODD | st.floats(1, 50))
def test_proximal_operators(v, step, p):
    with answered_or_refused():
        prox_norm(v, p=p, step=step)
    with answered_or_refused():
        norm(v, p=p)
    with answered_or_refused():
        project_ball(v, p=p, radius=step)
    with answered_or_refused():
        project_simplex(v, total=step)
