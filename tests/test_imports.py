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


def test_dir_shows_public_names_and_all_of_them_can_be_had():
    shown = set(dir(proxlin)) - {"__doc__", "__version__"}
    assert set(proxlin.__all__) < shown
    assert not [name for name in shown if name.startswith("_")]
    assert all(hasattr(proxlin, name) for name in shown)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Problme'"):
        _ = proxlin.Problme
