"""A TableRegressor as plain values and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from proxlin.estimators.estimator_state import estimator_state, restore_estimator
from proxlin.estimators.families.additive import AdditiveModel, Ramps
from proxlin.estimators.families.folds import ColumnRoles
from proxlin.estimators.families.forest import Forest
from proxlin.estimators.families.kernel import KernelSurface
from proxlin.estimators.families.table_regressor import (
    ColumnMember,
    FamilyFigures,
    Member,
    NetMember,
    TableRegressor,
)
from proxlin.estimators.families.trees import BoostedTrees
from proxlin.estimators.regression.regressor import RobustRegressor
from proxlin.estimators.scores import OutlierScale

_PARTS: dict[str, Any] = {"trees": BoostedTrees, "kernel": KernelSurface, "forest": Forest}
_OF_TRAINING = ("outlier_scores", "outliers", "row_weights")  # not kept of nets


def regressor_state(model: TableRegressor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain values and arrays of a model, as a folder keeps them."""
    values: dict[str, Any] = {
        "kind": "TableRegressor",
        "weights": model.weights,
        "figures": [vars(figures) for figures in model.figures],
        "outlier_scale": [
            model.outlier_scale_.center, model.outlier_scale_.spread, model.outlier_scale_.cutoff,
        ],
        "seconds": model.seconds,
        "members": {name: [] for name in model.members},
    }  # fmt: skip
    arrays: dict[str, Any] = {"quantiles": model.quantiles, "numbers": model.roles.numbers}
    arrays["lowest"], arrays["highest"] = model.ranges
    if model.columns is not None:
        arrays["columns"] = model.columns
    arrays |= {f"category.{k}": columns for k, columns in enumerate(model.roles.categories)}
    for name, members in model.members.items():
        for number, member in enumerate(members):
            plain, parts = _member_state(member)
            values["members"][name].append(plain)
            arrays |= {f"{name}.{number}.{key}": value for key, value in parts.items()}
    return values, arrays


def restore_regressor(values: dict[str, Any], arrays: dict[str, Any]) -> TableRegressor:
    """What `regressor_state` took apart; held-out predictions of training rows are not kept."""
    plain = {name: array.numpy() for name, array in arrays.items() if ".net." not in name}
    count = sum(name.startswith("category.") for name in plain)
    roles = ColumnRoles(plain["numbers"], tuple(plain[f"category.{k}"] for k in range(count)))
    members: dict[str, list[Member]] = {}
    for name, parts in values["members"].items():
        members[name] = []
        for number, part in enumerate(parts):
            before = f"{name}.{number}."
            own = {k.removeprefix(before): v for k, v in arrays.items() if k.startswith(before)}
            members[name].append(_restore_member(name, part, own, roles))
    return TableRegressor(
        roles,
        members,
        {name: float(weight) for name, weight in values["weights"].items()},
        [FamilyFigures(**figures) for figures in values["figures"]],
        OutlierScale(*values["outlier_scale"]),
        plain["quantiles"],
        values["seconds"],
        np.empty((0, plain["quantiles"].shape[1])),
        plain.get("columns"),
        (plain["lowest"], plain["highest"]),
    )


def _member_state(member: Member) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(member, AdditiveModel):
        return member.state()
    if isinstance(member, NetMember):
        values, parts = estimator_state(member.net)
        arrays = {f"ramps.{key}": value for key, value in member.ramps.state().items()}
        kept = {k: v for k, v in parts.items() if k not in _OF_TRAINING}
        return values, arrays | {f"net.{key}": value for key, value in kept.items()}
    values, parts = member.base.state()
    arrays = {f"base.{key}": value for key, value in parts.items()}
    for target, part in enumerate(member.parts):
        arrays |= {f"{target}.{key}": value for key, value in part.state().items()}
    return {**values, "targets": len(member.parts)}, arrays


def _restore_member(
    name: str, values: dict[str, Any], arrays: dict[str, Any], roles: ColumnRoles
) -> Member:
    def below(before: str, *, tensors: bool = False) -> dict[str, Any]:
        return {
            key.removeprefix(before): array if tensors else array.numpy()
            for key, array in arrays.items()
            if key.startswith(before)
        }

    if name == "net":
        parts = below("net.", tensors=True)
        parts |= dict.fromkeys(_OF_TRAINING, torch.empty(0))
        net = restore_estimator(values, parts)
        assert isinstance(net, RobustRegressor)
        return NetMember(Ramps.restore(below("ramps.")), net)
    if name in _PARTS:
        base = AdditiveModel.restore(values, below("base."))
        restore = _PARTS[name].restore
        own = tuple(restore(below(f"{target}.")) for target in range(values["targets"]))
        return ColumnMember(base, own, roles)
    return AdditiveModel.restore(values, below(""))
