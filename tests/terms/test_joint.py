"""Joint proxes against an interior-point solver and their own characterisation; refusals."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import torch

from proxlin.errors import CombinationError, InvalidInputError
from proxlin.terms import (
    Ball,
    Box,
    ElasticNet,
    GroupLasso,
    Lasso,
    LpNorm,
    NonNegative,
    Penalty,
    Ridge,
    Simplex,
    Tied,
)
from proxlin.terms.layout import Layout

from .oracle import distance_to_oracle, oracle_prox

LAYOUT = Layout(("enc.weight", "enc.bias", "dec.weight", "dec.bias"), ((3, 2), (3,), (2, 3), (2,)))
ENC, DEC = "enc.weight", "dec.weight"
TIED = Tied(ENC, DEC, transposed=True)

# Each line is one rule, or a use of several at once, of proxlin.terms.joint.
EXACT: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "ridge on weights, lasso on all": (Ridge(0.7, on="*.weight") + Lasso(0.3), None),
    "two ridges overlapping": (Ridge(0.7, on="*.weight") + Ridge(0.4, on="enc.*"), None),
    "elastic net, box": (ElasticNet(0.3, 0.5), Box(-0.4, 0.6)),
    "elastic net off the box": (ElasticNet(0.3, 0.5), Box(0.2, 0.6, on="enc.*")),
    "lasso, one-sided box": (Lasso(0.3), Box(-inf, 0.5)),
    "boxes crossing": (Lasso(0.2, on=ENC), Box(-1, 0.5) & Box(-0.3, 1, on="*.weight")),
    "ridge, lp": (Ridge(0.6) + LpNorm(1.2, 3.0), None),
    "lasso, lp 1.5": (Lasso(0.3) + LpNorm(0.8, 1.5), None),
    "lasso, lp inf": (Lasso(0.2) + LpNorm(0.8, inf), None),
    "lasso on part, lp 3": (Lasso(0.4, on="*.weight") + LpNorm(0.8, 3.0), None),
    "lp 1 is lasso": (LpNorm(0.4, 1.0) + LpNorm(0.8, 2.0), None),
    "norms added": (LpNorm(0.4, 3.0) + LpNorm(0.5, 3.0), None),
    "norms nested": (LpNorm(0.6, 3.0, on="*.weight") + LpNorm(0.5, 2.0), None),
    "norms on one block": (LpNorm(0.6, 3.0) + LpNorm(0.5, 2.0), None),
    "norms apart": (LpNorm(0.6, 3.0, on="enc.*") + LpNorm(0.5, 4.0, on="dec.*"), None),
    "group lasso": (GroupLasso(0.6, "columns", on="*.weight"), None),
    "sparse group lasso": (GroupLasso(0.6, "rows", on=ENC) + Lasso(0.3, on=ENC), None),
    "two group lassos": (GroupLasso(0.6, on=ENC) + GroupLasso(0.3, on="*.weight"), None),
    "tree of groups": (
        ElasticNet(0.1, 0.3) + GroupLasso(0.3, on="*.weight") + LpNorm(0.3, 2.0, on="enc.*"),
        Ball(0.8),
    ),
    "group lasso, non-negative": (GroupLasso(0.6, on="*.weight"), NonNegative()),
    "group lasso, ball": (GroupLasso(0.3, on="*.weight") + Lasso(0.1), Ball(0.9)),
    "lp, non-negative": (LpNorm(0.7, 1.5) + Lasso(0.2), NonNegative()),
    "lp, non-negative on part": (LpNorm(0.7, 3.0), NonNegative(on="*.weight")),
    "lp, signs mixed": (LpNorm(0.7, 3.0), NonNegative(on=ENC) & Box(-inf, 0, on=DEC)),
    "lp, wider box is idle": (LpNorm(0.7, 3.0), NonNegative() & Box(-1, inf)),
    "ridges that round differently": (
        Ridge(0.3, on="enc.*") + Ridge(0.1, on="dec.*") + Ridge(0.2, on="dec.*") + LpNorm(1, 3),
        None,
    ),
    "lp, zeros": (LpNorm(0.7, 3.0), Box(0, 0, on=ENC)),
    "lasso, ball 1": (Lasso(0.2), Ball(1.5, p=1.0)),
    "lasso, ball 3": (Lasso(0.2), Ball(0.8, p=3.0)),
    "lasso, ball 2 on part": (Lasso(0.2), Ball(0.5, on="*.weight")),
    "lasso, ball inf": (Lasso(0.2), Ball(0.4, p=inf)),
    "ridge, ball 1.5, non-negative": (Ridge(0.3), Ball(0.9, p=1.5) & NonNegative()),
    "norm 2 and ball 2": (LpNorm(0.5, 2.0), Ball(0.9)),
    "norm 2 in wider ball 2": (LpNorm(0.5, 2.0, on="enc.*"), Ball(0.9)),
    "norm 3 and ball 3, outside": (LpNorm(0.2, 3.0), Ball(0.7, p=3.0)),
    "norm 3 and ball 3, inside": (LpNorm(0.9, 3.0), Ball(1.4, p=3.0)),
    "norm inf and ball inf": (LpNorm(0.3, inf), Ball(0.4, p=inf)),
    "norm 3 in ball 2": (LpNorm(0.3, 3.0), Ball(0.8)),
    "balls, one radius wins": (Lasso(0.1), Ball(0.9, p=3.0) & Ball(0.6, p=3.0)),
    "balls apart": (Ridge(0.2, on="enc.*"), Ball(0.9, p=3.0, on="enc.*") & Ball(0.6, on="dec.*")),
    "simplex": (ElasticNet(0.4, 0.3), Simplex(2.0)),
    "simplex, lasso on part": (Lasso(0.4, on="*.weight") + Ridge(0.3), Simplex(2.0)),
    "simplex of rows": (Lasso(0.4), Simplex(1.0, "rows", on="*.weight")),
    "simplex of columns": (Ridge(0.4, on=ENC), Simplex(0.5, "columns", on=ENC) & NonNegative()),
    "simplex in box": (None, Simplex(1.0, on=ENC) & Box(-1, 1)),
    "tied": (None, TIED),
    "tied, patterns in a list": (Lasso(0.3), Tied(["enc.weight"], [DEC], transposed=True)),
    "tied, ridge on one": (Ridge(0.8, on=ENC) + Lasso(0.3, on=DEC), TIED),
    "tied, box on one": (Lasso(0.2), TIED & Box(-0.2, 0.3, on=DEC)),
    "tied, non-negative": (ElasticNet(0.2, 0.3), TIED & NonNegative()),
    "tied, lp over all": (LpNorm(0.8, 3.0) + Ridge(0.2), TIED),
    "tied, lp on one": (LpNorm(0.8, 3.0, on=ENC), TIED),
    "tied, groups alike": (GroupLasso(0.5, on=ENC) + GroupLasso(0.2, "columns", on=DEC), TIED),
    "tied, groups on one": (GroupLasso(0.6, "columns", on=ENC), TIED & NonNegative()),
    "tied, ball on one": (Lasso(0.1), TIED & Ball(0.5, p=3.0, on=DEC)),
    "tied, ball over all": (GroupLasso(0.2, on=ENC), TIED & Ball(0.8)),
    "tied, simplex on one": (Ridge(0.2), TIED & Simplex(1.0, "rows", on=ENC)),
}


def random_theta(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(LAYOUT.size, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("name", EXACT)
def test_equals_the_interior_point_solution(name: str) -> None:
    regularizer, constraint = EXACT[name]
    penalty = Penalty(LAYOUT, regularizer, constraint)
    for seed, step in ((0, 1.0), (1, 0.4)):
        theta = random_theta(seed)
        expected = oracle_prox(LAYOUT, regularizer, constraint, theta, step)
        point = penalty.prox(theta, step)
        objective = float(step * penalty.value(point) + 0.5 * (point - theta).square().sum())
        assert torch.linalg.vector_norm(point - expected) <= distance_to_oracle(objective)
        assert penalty.contains(point, tolerance=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_beats_every_feasible_point_by_half_its_squared_distance(name: str) -> None:
    # The prox objective is 1-strongly convex: F(y) >= F(x) + 1/2 ||y - x||^2 at its minimiser x,
    # for all feasible y, and at no other point x.
    regularizer, constraint = EXACT[name]
    penalty = Penalty(LAYOUT, regularizer, constraint)
    theta, step = 1.5 * random_theta(7), 0.7

    def objective(x: torch.Tensor) -> float:
        return float(step * penalty.value(x) + 0.5 * (x - theta).square().sum())

    best = penalty.prox(theta, step)
    for seed in range(40):
        spread = 10.0 ** -(seed % 5)
        rival = penalty.project(best + spread * random_theta(100 + seed))
        gap = objective(rival) - objective(best) - 0.5 * float((rival - best).square().sum())
        assert gap >= -1e-12


@pytest.mark.parametrize("name", EXACT)
def test_quadratic_part_and_rest_give_the_same_prox(name: str) -> None:
    regularizer, constraint = EXACT[name]
    penalty = Penalty(LAYOUT, regularizer, constraint)
    theta = random_theta(3)
    quadratic = 0.5 * (penalty.quadratic * theta.square()).sum()
    assert torch.allclose(penalty.value(theta), quadratic + penalty.rest.value(theta), rtol=1e-14)
    assert not penalty.rest.quadratic.any()
    weights = penalty.quadratic.unique()
    if len(weights) == 1:
        shrink = 1 / (1 + 0.6 * float(weights))
        by_parts = penalty.rest.prox(theta * shrink, 0.6 * shrink)
        assert torch.allclose(penalty.prox(theta, 0.6), by_parts, rtol=1e-13, atol=1e-15)


REFUSED: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "box and norm": (
        LpNorm(1.0, 2.0),
        Box(-1, 1),
        ("Box(low=-1, high=1)", "LpNorm(weight=1.0, p=2.0)", "on=", "NonNegative()"),
    ),
    "ball inf and groups": (GroupLasso(1.0, on=ENC), Ball(1.0, p=inf), ("Ball", "GroupLasso")),
    "box tied to a norm": (LpNorm(1.0, 3.0, on=ENC), TIED & Box(-1, 1, on=DEC), ("Box", "LpNorm")),
    "ridge on part of a norm": (
        Ridge(0.5, on="*.weight") + LpNorm(1.0, 2.0),
        None,
        ("Ridge(weight=0.5, on='*.weight')", "LpNorm", "0.5 on", "one weight"),
    ),
    "ridge on part of a ball": (Ridge(0.5, on=ENC), Ball(1.0), ("Ridge", "Ball", "0 on")),
    "ridge on part of a simplex": (Ridge(0.5, on=ENC), Simplex(), ("Ridge", "Simplex")),
    "ridge tied to part of a norm": (
        Ridge(0.5, on=DEC) + LpNorm(1.0, 2.0, on="enc.*"),
        TIED,
        ("Ridge(weight=0.5, on='dec.weight')", "LpNorm", "0.25 on 'enc.weight'"),
    ),
    "norm tied to a part of itself": (LpNorm(1.0, 2.0, on="enc.*"), TIED, ("LpNorm",)),
    "box named, not the half-line": (
        LpNorm(1.0, 2.0),
        NonNegative() & Box(-1, 1),
        ("Box(low=-1, high=1) and LpNorm",),
    ),
    "wider norm is not round": (
        LpNorm(1.0, 2.0, on=ENC) + LpNorm(1.0, 3.0),
        None,
        ("take p=2 in LpNorm(weight=1.0, p=3.0)", ENC),
    ),
    "groups in a norm that is not round": (
        GroupLasso(1.0, on=ENC) + LpNorm(1.0, 3.0, on="enc.*"),
        None,
        ("GroupLasso", "LpNorm", "p=2"),
    ),
    "groups in a ball that is not round": (
        GroupLasso(1.0, on=ENC),
        Ball(1.0, p=1.0),
        ("GroupLasso", "take p=2 in Ball(radius=1.0, p=1.0)"),
    ),
    "norms crossing": (
        LpNorm(1.0, 2.0, on="enc.*") + LpNorm(1.0, 2.0, on="*.weight"),
        None,
        ("both act on 'enc.weight'", "drop one"),
    ),
    "ball inside a norm": (LpNorm(1.0, 2.0), Ball(1.0, on=ENC), ("Ball", "LpNorm")),
    "balls nested": (None, Ball(1.0, on=ENC) & Ball(2.0), ("Ball(radius=2.0)", "drop one")),
    "norm and ball of other p": (LpNorm(1.0, 2.0), Ball(1.0, p=3.0), ("LpNorm", "Ball")),
    "simplex and norm": (LpNorm(1.0, 2.0), Simplex(), ("Simplex", "LpNorm")),
    "simplex and groups": (GroupLasso(1.0, on=ENC), Simplex(along="rows", on=ENC), ("Simplex",)),
    "tied chain": (
        None,
        Tied("enc.bias", "dec.bias") & Tied("dec.bias", "third.bias"),
        ("'dec.bias'", "only pairs"),
    ),
    "empty through a tie": (
        None,
        TIED & Box(0.5, 1, on=ENC) & Box(-1, 0.2, on=DEC),
        ("Box(low=0.5", "Box(low=-1", "leave no point"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_exact_joint_prox_is_refused_when_bound(name: str) -> None:
    regularizer, constraint, words = REFUSED[name]
    layout = LAYOUT
    if name == "tied chain":
        layout = Layout(("enc.bias", "dec.bias", "third.bias"), ((2,), (2,), (2,)))
    with pytest.raises(CombinationError) as caught:
        Penalty(layout, regularizer, constraint)
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: GroupLasso(1.0, "rows") + GroupLasso(1.0, "columns"),
            ("groups='columns'", "theta"),
        ),
        (lambda: LpNorm(1.0, 3.0, on=ENC) + LpNorm(1.0, 4.0, on=ENC), ("p=3.0", "p=4.0", ENC)),
        (lambda: GroupLasso(1.0, on=ENC) + LpNorm(1.0, 4.0), ("GroupLasso", "p=4.0")),
        (lambda: Box(-1, 1) & Ball(1.0), ("Box", "Ball", "NonNegative()")),
        (lambda: Simplex(2.0, on=ENC) & Box(0, 1), ("Simplex(total=2.0, on='enc.weight')", "Box")),
        (lambda: Box(2, 3) & Box(0, 1), ("leave no point",)),
        (lambda: NonNegative() & Box(-2, -1, on=ENC), ("NonNegative()", "leave no point")),
        (lambda: Simplex(1.0) & Simplex(2.0), ("total=2.0", "leave no point")),
        (lambda: Ball(1.0, p=1.0) & Ball(1.0, p=2.0), ("Ball(radius=1.0, p=1.0)", "drop one")),
        (lambda: Ridge(1.0) + NonNegative(), ("constraint=",)),
        (lambda: NonNegative() & Ridge(1.0), ("regularizer=",)),
    ],
)
def test_what_no_layout_could_make_right_is_refused_when_written(make: Any, words: Any) -> None:
    with pytest.raises(CombinationError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_same_terms_on_other_parameters_combine() -> None:
    regularizer = LpNorm(1.0, 3.0, on=ENC) + LpNorm(1.0, 4.0, on="*.bias")
    penalty = Penalty(LAYOUT, regularizer, Box(-1, 1, on=DEC))
    theta = random_theta(0)
    alone = LpNorm(1.0, 3.0).prox(LAYOUT.split(theta)[ENC], 0.5)
    assert torch.equal(LAYOUT.split(penalty.prox(theta, 0.5))[ENC], alone)


def test_tied_needs_shapes_that_fit() -> None:
    with pytest.raises(InvalidInputError, match=r"equal shapes; got 'enc.weight' \(3, 2\)"):
        Penalty(LAYOUT, constraint=Tied(ENC, DEC))
    with pytest.raises(InvalidInputError, match="transposed shapes"):
        Penalty(LAYOUT, constraint=Tied("enc.bias", "dec.bias", transposed=True))
    with pytest.raises(InvalidInputError, match="one by one"):
        Penalty(LAYOUT, constraint=Tied("enc.*", DEC))
    with pytest.raises(InvalidInputError, match="none twice"):
        Penalty(LAYOUT, constraint=Tied("enc.*", "*.weight"))
