"""What `import proxlin` and `proxlin --version` leave for later, and what they show."""

import json
import subprocess
import sys

import pytest

import proxlin

LATER = {
    "torch",
    "pandas",
    "scipy",
    "sklearn",
    "matplotlib",
    "pooch",
    "jinja2",
    "joblib",
    "proxlin.data",
    "proxlin.models",
    "proxlin.estimators",
    "proxlin.exact",
    "proxlin.report",
    "proxlin.paper",
    "proxlin.app.tabular",
}


@pytest.mark.processes
@pytest.mark.parametrize("statement", ["import proxlin", "import proxlin.app.cli.main"])
def test_what_takes_long_to_import_waits_until_it_is_needed(statement):
    script = f"import json, sys; {statement}; print(json.dumps(list(sys.modules)))"
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    loaded = {name for name in json.loads(printed) if name in LATER}
    assert loaded == set()


@pytest.mark.processes
@pytest.mark.parametrize(
    "module",
    [
        "nn.Sequential(nn.Linear(6, 300), nn.ReLU(), nn.Linear(300, 1))",
        "nn.Sequential(nn.TransformerEncoderLayer(6, 2, 9, 0, batch_first=True), nn.Linear(6, 1))",
    ],
    ids=["wide layers", "attention"],
)
def test_the_time_of_a_run_does_not_load_the_compiler_of_torch(module):
    script = (
        "import sys, torch; from torch import nn; from proxlin import Problem, minimize;"
        f"x = torch.randn(99, 4, 6); minimize(Problem({module}, (x, x[..., :1])), max_iter=3);"
        "minimize(Problem(" + module + ", (x, x[..., :1])), max_seconds=0.2);"
        "print('torch._dynamo' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert printed == "False\n"


def test_dir_shows_public_names_and_all_of_them_can_be_had():
    shown = set(dir(proxlin)) - {"__doc__", "__version__"}
    assert set(proxlin.__all__) < shown
    assert not [name for name in shown if name.startswith("_")]
    assert all(hasattr(proxlin, name) for name in shown)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Problme'"):
        _ = proxlin.Problme
