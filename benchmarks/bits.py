"""Whether two checkouts compute the same bits: runs of fixed length, each recorded by its hash.

    python benchmarks/bits.py --save before.json                      # on one checkout
    python benchmarks/bits.py --compare before.json                   # on the other
    python benchmarks/bits.py --compare before.json --only regressor  # names that contain a word

Only public names are used, so that one script serves both. No run looks at the clock; the bits are
those of one thread. What differs is listed with the relative distance of its numbers, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import proxlin
from proxlin import Problem, minimize, prox
from proxlin.data import add_outliers, blob_images, planted_factorization, planted_regression
from proxlin.models import conv_autoencoder, linear_regressor, mlp_autoencoder, mlp_regressor

Record = dict[str, Any]
_KEPT = 64  # numbers of a record that are kept to measure how far it moved


def main() -> int:
    """Record all runs; write them, or compare them with those of a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--save", type=Path, help="where to write the records")
    parser.add_argument("--compare", type=Path, help="records of another checkout")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("proxlin").setLevel(logging.ERROR)
    records: dict[str, Record] = {}
    for name, run in runs():
        if arguments.only in name:
            records[name] = record(run)
            print(f"{records[name]['cpu']:7.2f} s  {name}", file=sys.stderr)
    if arguments.save:
        kept = (
            json.loads(arguments.save.read_text())
            if arguments.only and arguments.save.exists()
            else {}
        )
        arguments.save.write_text(json.dumps({**kept, **records}, indent=1))
    if arguments.compare is None:
        return 0
    earlier = json.loads(arguments.compare.read_text())
    changed = list(differences({k: v for k, v in earlier.items() if arguments.only in k}, records))
    print("\n".join(changed))
    print(f"{len(records)} runs, {len(changed)} of them differ; proxlin from {proxlin.__file__}")
    return int(bool(changed))


def record(run: Callable[[], Any]) -> Record:
    """The hash of what `run` returns, and some of its numbers; or the error it ended with."""
    begun = _cpu_seconds()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = run()
        arrays = [_array(value) for value in outcome]
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        numbers = np.concatenate([array.astype(np.float64).ravel() for array in arrays])
        spread = np.linspace(0, len(numbers) - 1, min(_KEPT, len(numbers))).astype(int)
        return {
            "hash": digest.hexdigest()[:16],
            "numbers": numbers[spread].tolist(),
            "cpu": round(_cpu_seconds() - begun, 3),
        }
    except Exception as error:  # an error is an outcome to compare, too
        text = f"{type(error).__name__}: {error}"
        return {"hash": text, "numbers": [], "cpu": round(_cpu_seconds() - begun, 3)}


def _cpu_seconds() -> float:
    spent = os.times()  # the commands run in processes of their own
    return spent.user + spent.system + spent.children_user + spent.children_system


def differences(earlier: dict[str, Record], later: dict[str, Record]) -> Iterator[str]:
    """A line for each run that is missing or differs, with the relative distance."""
    for name in [*earlier, *(name for name in later if name not in earlier)]:
        if name not in later or name not in earlier:
            yield f"{name}: only in {'the file' if name in earlier else 'this checkout'}"
        elif earlier[name]["hash"] != later[name]["hash"]:
            yield f"{name}: {_distance(earlier[name], later[name])}"


def _distance(earlier: Record, later: Record) -> str:
    a, b = np.asarray(earlier["numbers"]), np.asarray(later["numbers"])
    if not len(a) or len(a) != len(b):
        return f"{earlier['hash']} before, {later['hash']} now"
    scale = max(float(np.nanmax(np.abs(a))), 1e-300)
    return f"relative distance {float(np.nanmax(np.abs(a - b))) / scale:.1e}"


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    array = np.ascontiguousarray(value)
    return array.astype(np.float64) if array.dtype == object else array


def runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """All runs by name."""
    yield from prox_runs()
    yield from minimize_runs()
    yield from estimator_runs()
    yield from command_runs()


# -- proximal operators ---------------------------------------------------------------------------


def prox_runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Norms, proximal operators and projections for several p, sizes and types."""
    for dtype in (torch.float32, torch.float64):
        generator = torch.Generator().manual_seed(0)
        v = torch.randn(200, 30, generator=generator, dtype=torch.float64).to(dtype) * 3
        v[::7] = 0
        kind = str(dtype).removeprefix("torch.")
        for p in (1.0, 1.001, 1.2, 1.5, 2.0, 3.0, 50.0, math.inf):
            yield f"prox p={p} {kind}", partial(_proximal, v, p)
        yield f"prox simplex {kind}", partial(_simplex, v)


def _proximal(v: torch.Tensor, p: float) -> tuple[Any, ...]:
    return (
        prox.norm(v, p=p),
        prox.norm_subgradient(v, p=p),
        prox.prox_norm(v, p=p, step=0.7),
        prox.project_ball(v, p=p, radius=2.0),
    )


def _simplex(v: torch.Tensor) -> tuple[Any, ...]:
    return (prox.project_simplex(v),)


# -- minimize -------------------------------------------------------------------------------------


def _linear(p: Any = 1.0, dtype: torch.dtype = torch.float64, **terms: Any) -> Problem:
    planted = planted_regression(120, 6, 3, outlier_ratio=0.2, noise=0.3, seed=1)
    x, y = (value.to(dtype) for value in (planted.x, planted.y))
    torch.manual_seed(0)
    return Problem(linear_regressor(6, 3).to(dtype), (x, y), p, **terms)


def _net(p: Any = 1.0, **terms: Any) -> Problem:
    planted = planted_regression(300, 8, 2, outlier_ratio=0.2, noise=0.3, seed=2)
    torch.manual_seed(0)
    net = mlp_regressor(8, 2, hidden=(16,))
    return Problem(net, (planted.x.float(), planted.y.float()), p, **terms)


def _wide(p: Any = 1.0, **terms: Any) -> Problem:
    planted = planted_regression(200, 30, 5, outlier_ratio=0.1, noise=0.3, seed=3)
    torch.manual_seed(0)
    net = mlp_regressor(30, 5, hidden=(64, 40))  # more than 1,500 parameters: curvature in blocks
    return Problem(net, (planted.x.float(), planted.y.float()), p, **terms)


def _codes(p: Any = 2.0, **terms: Any) -> Problem:
    x = planted_factorization(150, 10, 3, outlier_ratio=0.1, noise=0.3, seed=4).x.float()
    torch.manual_seed(0)
    return Problem(mlp_autoencoder((10, 6, 3)), x, p, **terms)


def _images(p: Any = 1.0, **terms: Any) -> Problem:
    images = blob_images(24, 12, seed=5).images.float()
    torch.manual_seed(0)
    return Problem(conv_autoencoder((1, 6, 8)), images, p, **terms)


def _own_module(p: Any = 1.0, **terms: Any) -> Problem:
    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(6, 4)
            self.b = torch.nn.Linear(6, 4)
            self.c = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.c(torch.tanh(self.a(x)) * self.b(x))

    planted = planted_regression(120, 6, 3, outlier_ratio=0.2, noise=0.3, seed=1)
    torch.manual_seed(0)
    return Problem(Product(), (planted.x.float(), planted.y.float()), p, **terms)


def _solved(make: Callable[[], Problem], method: Any, **budget: Any) -> tuple[Any, ...]:
    result = minimize(make(), method=method, **budget)
    return result.theta, result.objective, result.iterations


def minimize_runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each method on problems of several kinds, by steps alone."""
    ridge, ball = proxlin.Ridge(1e-2), proxlin.Ball(3.0)
    problems: dict[str, Callable[..., Problem]] = {
        "linear": _linear,
        "net": _net,
        "wide net": _wide,
        "autoencoder": _codes,
        "own module": _own_module,
    }
    steps = {"probed": 40, "mbo-sadm": 3, "mbo-sgd": 3, "mbo-admm": 2, "sgd": 60, "adam": 60}
    for method, count in steps.items():
        for kind, make in problems.items():
            if method == "mbo-admm" and kind == "wide net":
                continue
            for p in (1.0, 1.5) if kind in ("linear", "net") else (2.0,):
                run = partial(_solved, partial(make, p), method, max_iter=count)
                yield f"minimize {method} {kind} p={p}", run
    for exponent in ("mse", 3.0, math.inf):
        run = partial(_solved, partial(_net, exponent), "probed", max_iter=40)
        yield f"minimize probed net p={exponent}", run
    yield "minimize probed images", partial(_solved, _images, "probed", max_iter=8)
    terms: dict[str, dict[str, Any]] = {
        "ridge": {"regularizer": ridge},
        "lasso": {"regularizer": proxlin.Lasso(1e-2)},
        "elastic net": {"regularizer": proxlin.ElasticNet(1e-2, 1e-2)},
        "group lasso": {"regularizer": proxlin.GroupLasso(1e-2, on="*.weight")},
        "lp norm": {"regularizer": proxlin.LpNorm(1e-2, p=1.5)},
        "ball": {"constraint": ball},
        "non-negative": {"constraint": proxlin.NonNegative()},
        "box": {"constraint": proxlin.Box(-0.5, 0.5)},
        "lasso in a box": {
            "regularizer": proxlin.Lasso(1e-2),
            "constraint": proxlin.Box(-0.5, 0.5),
        },
    }
    for name, given in terms.items():
        for method, count in (("probed", 25), ("mbo-sadm", 2), ("mbo-admm", 2), ("adam", 25)):
            run = partial(_solved, partial(_net, **given), method, max_iter=count)
            yield f"minimize {method} net {name}", run
    yield "minimize probed polished", partial(_solved, _net, "probed", max_iter=20, polish=2)
    whole = proxlin.Probed(batch_size=300)
    yield "minimize probed whole data", partial(_solved, _net, whole, max_iter=15)
    yield "minimize probed to the end", partial(_solved, _linear, "probed", max_seconds=None)
    yield "minimize probed held out", _held_out
    yield "minimize stationarity", _stationarity
    yield "minimize checkpoint", _checkpointed


def _held_out() -> tuple[Any, ...]:
    planted = planted_regression(60, 8, 2, outlier_ratio=0.2, noise=0.3, seed=9)
    rows = (planted.x.float(), planted.y.float())
    return _solved(_net, "probed", max_iter=40, held_out=rows)


def _stationarity() -> tuple[Any, ...]:
    result = minimize(_net(), max_iter=20, stationarity_rows=50)
    certificate = getattr(result, "certificate", None)
    value = getattr(result, "stationarity", None) if certificate is None else certificate.value
    return result.theta, result.objective, value


def _checkpointed() -> tuple[Any, ...]:
    with tempfile.TemporaryDirectory() as folder:
        minimize(_net(), max_iter=15, checkpoint=folder)
        return _solved(_net, "probed", max_iter=30, checkpoint=folder)


# -- estimators -----------------------------------------------------------------------------------


def _table(outliers: float = 0.2) -> tuple[Any, Any]:
    planted = planted_regression(200, 5, 2, outlier_ratio=outliers, noise=0.3, seed=7)
    return planted.x.double().numpy(), planted.y.double().numpy()


def _regression(one_target: bool = False, **settings: Any) -> tuple[Any, ...]:
    x, y = _table()
    y = y[:, 0] if one_target else y
    model = proxlin.RobustRegressor(random_state=0, **settings).fit(x, y)
    given = (model.predict(x), model.outlier_scores(x, y), model.outliers_, model.result_.objective)
    return (*given, model.coef_, model.intercept_) if hasattr(model, "coef_") else given


def _encoding(**settings: Any) -> tuple[Any, ...]:
    x = planted_factorization(150, 8, 2, outlier_ratio=0.1, noise=0.3, seed=4).x.double().numpy()
    model = proxlin.RobustAutoencoder(random_state=0, max_iter=60, **settings).fit(x)
    return model.transform(x), model.score_samples(x), model.predict(x)


def _factors(kind: Any, **settings: Any) -> tuple[Any, ...]:
    planted = planted_factorization(60, 12, 3, outlier_ratio=0.1, noise=0.3, seed=6)
    x = planted.x.double().abs().numpy().copy()
    x[::9, ::5] = np.nan
    model = kind(3, random_state=0, **settings)
    return model.fit_transform(x), model.components_, model.transform(x[:10])


def _selected(with_target: bool, **settings: Any) -> tuple[Any, ...]:
    x, y = _table()
    model = proxlin.RobustFeatureSelector(**settings).fit(x, y if with_target else None)
    return model.get_support(), model.transform(x)


def estimator_runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each estimator by several settings."""
    plain = {"reweight": False, "leverage": None, "regularizer": None}
    regressions: dict[str, dict[str, Any]] = {
        "defaults": {},
        "one target": {"one_target": True},
        "plain norm p=1": plain,
        "plain norm p=1.5": {"p": 1.5, **plain},
        "plain norm p=2": {"p": 2, **plain},
        "plain norm p=inf": {"p": math.inf, **plain},
        "least squares": {"p": "mse", **plain},
        "lasso": {"regularizer": "lasso", "alpha": 0.01, "reweight": False, "leverage": None},
        "group": {"regularizer": "group", "alpha": 0.01, "reweight": False, "leverage": None},
        "ridge by itself": {"regularizer": "ridge", "alpha": "auto", "reweight": False},
        "non-negative": {"constraint": proxlin.NonNegative(), "reweight": False, "leverage": None},
        "reweighted": {"reweight": True, "leverage": None},
        "leverage": {"reweight": True, "leverage": "auto"},
        "net": {"hidden": (8,), "max_iter": 60, "reweight": False, "leverage": None},
        "reweighted net": {"hidden": (8,), "max_iter": 40, "reweight": True, "leverage": None},
    }
    for name, settings in regressions.items():
        yield f"regressor {name}", partial(_regression, **settings)
    encodings: dict[str, dict[str, Any]] = {
        "defaults": {},
        "tied": {"tied": True},
        "p=1": {"p": 1.0, "hidden": (6,)},
        "noise": {"noise": 0.1},
    }
    for name, settings in encodings.items():
        yield f"autoencoder {name}", partial(_encoding, **settings)
    factorizations: dict[str, dict[str, Any]] = {
        "p=1": {"max_iter": 15},
        "p=2": {"p": 2.0, "max_iter": 15},
        "p=1.5": {"p": 1.5, "max_iter": 8},
        "columns": {"p": 2.0, "robust": "columns", "max_iter": 8},
        "ridge": {"alpha": 0.1, "max_iter": 8},
        "stream": {"batch_size": 20, "max_iter": 4},
    }
    for kind in (proxlin.RobustFactorization, proxlin.RobustNMF):
        for name, settings in factorizations.items():
            yield f"{kind.__name__} {name}", partial(_factors, kind, **settings)
    yield "selector target", partial(_selected, True)
    yield "selector two of them", partial(_selected, True, n_features_to_select=2)
    yield "selector no target", partial(_selected, False, n_features_to_select=3)
    yield "outliers published", partial(add_outliers, torch.ones(50, 4).cumsum(1), 0.2, seed=3)


# -- the command ----------------------------------------------------------------------------------


def _written_table(folder: Path) -> Path:
    """Numbers, a category, dates, missing cells and some rows gone wrong."""
    generator = np.random.default_rng(11)
    lines = ["size;rooms;town;sold;price"]
    for i in range(160):
        size, rooms = generator.uniform(40, 200), int(generator.integers(1, 7))
        town = ("Ulm", "Jena", "Kiel")[int(generator.integers(3))]
        price = 900 * size + 5000 * rooms + 20_000 * (town == "Ulm") + generator.normal(0, 900)
        price *= 1000 if i % 11 == 0 else 1
        shown = "" if i % 13 == 0 else str(rooms)
        day = f"20{10 + i % 10:02d}-{1 + i % 12:02d}-{1 + i % 28:02d}"
        lines.append(f"{size:.3f};{shown};{town};{day};{price:.2f}")
    path = folder / "homes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _command(*options: str) -> tuple[Any, ...]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = _written_table(folder)
        out = folder / "model"
        _call("fit", str(table), *options, "--out", str(out), "--quiet")
        texts = [(out / "predictions.csv").read_bytes()]
        if "--targets" in options:
            texts.append(_call("predict", str(out), str(table)))
        texts.append(_call("outliers", str(out), str(table)))
        return tuple(np.frombuffer(text, dtype=np.uint8) for text in texts)


def _call(*arguments: str) -> bytes:
    outcome = subprocess.run(
        [sys.executable, "-m", "proxlin", *arguments], capture_output=True, check=False
    )
    if outcome.returncode:
        raise RuntimeError(outcome.stderr.decode()[-500:])
    return outcome.stdout


def command_runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """`proxlin fit`, `predict` and `outliers` on a small table."""
    runs = {
        "linear": "--targets price",
        "reweighted": "--targets price --reweight --leverage",
        "net": "--targets price,size --model mlp --hidden 6",
    }
    for name, options in runs.items():
        yield f"command fit {name}", partial(_command, *options.split())


if __name__ == "__main__":
    sys.exit(main())
