"""Imports point one way through the layers of docs/architecture.md."""

import ast
from pathlib import Path

import pytest

import proxlin

ROOT = Path(proxlin.__file__).parent

# From the ground up. A layer may import itself and what stands before it.
LAYERS = [
    "errors",
    "_checks",
    "layout",
    "result",
    "budget",
    "prox",
    "terms",
    "data",
    "models",
    "loss",
    "rows",
    "problem",
    "linearize",
    "metric",
    "model",
    "subproblem",
    "curvature",
    "search",
    "methods",
    "minimize",
    "demo",
    "cli",
    "__init__",
    "__main__",
]


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; write the full name"
            names = [node.module or ""]
            if node.module == "proxlin":
                names = [f"proxlin.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("proxlin.")}
    return found


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_imports_point_to_lower_layers(path: Path) -> None:
    layer = layer_of(path)
    assert layer in LAYERS, f"{layer} has no place in the layers yet"
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    wrong = {name for name in imported_layers(path) if name in LAYERS} - allowed
    assert not wrong, f"{layer} stands below {sorted(wrong)} and must not import them"


def test_prox_is_pure_tensor_mathematics() -> None:
    for path in (ROOT / "prox").glob("*.py"):
        assert "torch.nn" not in path.read_text(), f"{path.name} must not use torch.nn"
