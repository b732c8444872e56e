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
    "prox",
    "terms",
    "data",
    "models",
    "problem",
    "linearize",
    "methods",
    "optim",
    "run",
    "exact",
    "estimators",
    "report",
    "paper",
    "app",
    "__init__",
    "__main__",
]


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import is relative; write the full name"
            names = [node.module or ""]
            if node.module == "proxlin":
                names = [f"proxlin.{alias.name}" for alias in node.names]
        ours = [f"{name}.__init__".split(".")[1] for name in names if is_ours(name)]
        # A name that is no layer, such as proxlin.Problem, comes from the package itself.
        found |= {name if name in LAYERS else "__init__" for name in ours}
    return found


def is_ours(name: str) -> bool:
    return name == "proxlin" or name.startswith("proxlin.")


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_imports_point_to_lower_layers(path: Path) -> None:
    layer = layer_of(path)
    assert layer in LAYERS, f"{layer} has no place in the layers yet"
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    wrong = imported_layers(path.read_text()) - allowed
    assert not wrong, f"{layer} stands below {sorted(wrong)} and must not import them"


@pytest.mark.parametrize(
    ("source", "layer"),
    [
        ("from proxlin import Problem", "__init__"),
        ("import proxlin", "__init__"),
        ("from proxlin.methods.mbo import MBO", "methods"),
        ("import proxlin.prox.norms", "prox"),
        ("from proxlin import prox", "prox"),
    ],
)
def test_imports_are_seen(source: str, layer: str) -> None:
    assert imported_layers(source) == {layer}


def test_prox_is_pure_tensor_mathematics() -> None:
    for path in (ROOT / "prox").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "torch":
                assert "nn" not in {alias.name for alias in node.names}, path.name
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None), *(alias.name for alias in node.names)]
                assert not any(str(name).startswith("torch.nn") for name in names), path.name
