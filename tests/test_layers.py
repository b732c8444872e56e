"""docs/architecture.md shows the rooms of src/proxlin, and imports point one way through them."""

import ast
import re
from pathlib import Path

import pytest

import proxlin

ROOT = Path(proxlin.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
MOST_ROOMS = 16


def tree() -> list[tuple[str, str]]:
    """Every entry of the tree on the page, with what is said of it: `methods/probed/`, ..."""
    block = re.search(r"```text\nsrc/proxlin/\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert block, "the page has a tree"
    entries, room = [], ""
    for line in block.group(1).splitlines():
        indent, name, purpose = re.fullmatch(r"( +)(\S+) *(.*)", line).groups()
        room = name if len(indent) == 2 else room
        entries.append((name if len(indent) == 2 else room + name, purpose))
    return entries


ROOMS = [name for name, _ in tree() if "/" not in name.rstrip("/")]
# From the ground up. A layer may import itself and what stands before it.
LAYERS = [re.sub(r"/$|\.py$", "", name) for name in ROOMS] + ["__init__", "__main__"]


def test_the_page_shows_every_room_and_no_other() -> None:
    folders = {path.parent for path in ROOT.rglob("*.py")} - {ROOT}
    modules = {path.name for path in ROOT.glob("*.py") if not path.name.startswith("__")}
    present = modules | {f"{path.relative_to(ROOT).as_posix()}/" for path in folders}
    assert {name for name, _ in tree()} == present
    assert all(purpose for _, purpose in tree())


def test_a_newcomer_need_not_read_more_than_a_few_rooms() -> None:
    assert len(ROOMS) <= MOST_ROOMS


@pytest.mark.parametrize(
    ("idea", "room"),
    [
        ("trust_region", "methods/probed"),
        ("duality_gap", "exact/linear"),
        ("dates", "app/tabular/reading"),
        ("folder", "run/checkpoint"),
        ("s_estimate", "estimators/regression"),
        ("prediction_interval", "estimators/inference"),
        ("outlier_views", "estimators/detection"),
    ],
)
def test_the_tree_alone_tells_where_an_idea_lives(idea: str, room: str) -> None:
    assert (ROOT / room / f"{idea}.py").exists()


def test_files_that_the_page_names_exist() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Where to look")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| .* \| (`.*) \|$", table, re.M):
        room = ROOT
        for name in re.findall(r"`([\w/.]+)`", row):
            path = ROOT / name if "/" in name else room / name
            assert path.exists(), name
            room = path.parent


def test_the_readme_of_the_benchmarks_names_each_of_them() -> None:
    folder = PAGE.parents[1] / "benchmarks"
    names = re.findall(r"`(\w+)`", (folder / "README.md").read_text(encoding="utf-8"))
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")}
    assert modules <= set(names)


def test_two_ideas_never_share_a_file_name() -> None:
    files = [path for path in ROOT.rglob("*.py") if not path.name.startswith("__")]
    names = [path.name for path in files]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_two_classes_never_share_a_name() -> None:
    """But for the method of a problem and the same method in a training loop of one's own."""
    trees = [ast.parse(path.read_text()) for path in ROOT.rglob("*.py")]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sorted({name for name in names if names.count(name) > 1}) == ["Probed"]


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(source: str) -> set[str]:
    layers = set()
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
        layers |= {name if name in LAYERS else "__init__" for name in ours}
    return layers


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


FOLDERS = [name.rstrip("/") for name, _ in tree() if "/" in name.rstrip("/")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_of_a_room_import_those_above_them(folder: str) -> None:
    siblings = [other for other in FOLDERS if Path(other).parent == Path(folder).parent]
    below = siblings[siblings.index(folder) + 1 :]
    for path in (ROOT / folder).rglob("*.py"):
        source = path.read_text()
        wrong = [other for other in below if f"proxlin.{other.replace('/', '.')}" in source]
        assert not wrong, f"{path.name} must not import {wrong}"


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
