"""The wheel and the sdist: what is in them, and that they work in a clean environment."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import proxlin

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the wheel, made from the sdist, and the sdist."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return folder


def test_the_wheel_holds_the_package_alone_and_is_small(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.name == f"proxlin-{proxlin.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_000_000
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "proxlin",
        f"proxlin-{proxlin.__version__}.dist-info",
    }
    in_source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "proxlin").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("proxlin/")} == in_source
    assert "proxlin/py.typed" in names


def test_links_of_the_description_have_whole_addresses_and_lead_to_files(dist):
    (wheel,) = dist.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    text = archive.read(metadata).decode()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 8
    for link in links:
        assert link.startswith("https://"), link
        file, _, heading = link.split("/main/")[1].partition("#")
        assert (ROOT / file).exists(), link
        headings = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(), re.M) if heading else []
        assert not heading or heading in {re.sub(r"\W+", "-", h.lower()) for h in headings}, link


def test_the_sdist_holds_no_outcome_of_a_run(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert tops <= {
        "src", "tests", "examples", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE",
        "pyproject.toml", "PKG-INFO", ".gitignore",
    }  # fmt: skip


def test_a_clean_environment_runs_the_demonstration(dist, tmp_path):
    """Dependencies are those of this environment, proxlin is the wheel's."""
    venv.create(tmp_path / "env", with_pip=False)
    scripts = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    site = next((tmp_path / "env").rglob("site-packages"))
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    # Without the line that makes this checkout importable.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    environment["OMP_NUM_THREADS"] = "1"

    def call(*arguments):
        return subprocess.run(
            [scripts / "python", "-P", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    where = call("-c", "import proxlin; print(proxlin.__file__, len(proxlin.__all__))")
    assert str(site) in where.stdout, where.stderr
    version = call("-m", "proxlin", "--version")
    assert proxlin.__version__ in version.stdout, version.stderr
    demo = call("-m", "proxlin", "demo", "--seconds", "1")
    assert demo.returncode == 0, demo.stderr
    assert list(tmp_path.rglob("report.html"))


def test_the_version_stands_in_one_place_and_the_rest_agrees():
    assert "version" in PROJECT["dynamic"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == proxlin.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    dated = re.search(rf"^## \[{re.escape(proxlin.__version__)}\] - (\S+)$", changes, re.MULTILINE)
    assert dated is not None
    assert dated[1] == str(cited["date-released"])


def packages(nodes):
    """The packages that these statements import, without those of Python itself and our own."""
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    found = {name.split(".")[0] for name in names} - {"proxlin", *sys.stdlib_module_names}
    return {"scikit-learn" if name == "sklearn" else name for name in found}


def test_every_package_that_is_imported_is_asked_for():
    """With proxlin what modules load at once, with some extra what single functions load."""
    always = {Requirement(line).name for line in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"].values()
    asked = always | {Requirement(line).name for lines in extras for line in lines}
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert packages(tree.body) <= always, path
        assert packages(ast.walk(tree)) <= asked, path


def test_the_conda_recipe_asks_for_the_same():
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("test:")[0]
    listed = {line.strip(" -").replace(" ", "") for line in run.splitlines() if line.strip()}
    other_names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    for one in map(Requirement, PROJECT["dependencies"]):
        assert f"{other_names.get(one.name, one.name)}{one.specifier}" in listed


def test_workflows_call_targets_that_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = []
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        yaml.safe_load(workflow.read_text(encoding="utf-8"))
        called += re.findall(r"run: make ([\w-]+)", workflow.read_text(encoding="utf-8"))
    assert {"lint", "test", "test-fast", "docs", "release"} <= set(called) <= set(targets)
