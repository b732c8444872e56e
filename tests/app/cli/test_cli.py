import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from types import SimpleNamespace

import matplotlib.image
import pytest

import proxlin
from proxlin.app.cli import demo, output
from proxlin.app.cli import main as cli
from proxlin.methods.contract import Status
from proxlin.paper.demo import training
from proxlin.paper.demo.training import SharePoint


def is_picture(path):
    image = matplotlib.image.imread(path)
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and image.std() > 0


def test_demo_as_json_is_a_table_a_curve_and_a_report(run, tmp_path):
    out = tmp_path / "new" / "folder"
    code, told, error = run("demo", "--seconds", 0.1, "--out", out, "--json")
    assert (code, error) == (0, "")
    found = json.loads(told)
    losses = ["squared error", "l2 norm", "l1 norm"]
    assert [row["loss"] for row in found["rows"]] == losses
    for row in found["rows"]:
        assert 0 < row["error on test rows"] < 1
        assert 0 <= row["outliers found"] <= 1
        assert row["seconds"] > 0
    shares = sorted((point["ratio"], losses.index(point["name"])) for point in found["shares"])
    assert shares == [(ratio, loss) for ratio in (0.0, 0.1, 0.2, 0.3, 0.4) for loss in range(3)]
    assert found["report"] == str(out / "report.html")
    assert {path.name for path in out.iterdir()} == {
        *("report.html", "pictures", "table.csv", "table.md", "table.tex")
    }
    pictures = sorted((out / "pictures").glob("*.png"))
    assert len(pictures) == 7
    assert all(is_picture(path) for path in pictures)


def test_demo_shows_a_table_and_says_where_the_report_is(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "trace_shares", lambda *_, **__: [SharePoint("l1 norm", 0.1, 0.2)])
    code, told, error = run("demo", "--seconds", 0.1, "--ratio", 0.01, "--out", "here[a]")
    assert (code, error) == (0, "")
    assert all(loss in told for loss in ("squared error", "l2 norm", "l1 norm"))
    assert told.endswith("\nReport: here[a]/report.html\n")
    page = (tmp_path / "here[a]" / "report.html").read_text()
    assert "proxlin demo --seconds 0.1 --ratio 0.01 --seed 0" in page
    assert "of the error of squared error" in page


def test_ctrl_c_ends_the_demo_at_once(run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        return SimpleNamespace(status=Status.INTERRUPTED)

    monkeypatch.setattr(training, "minimize", interrupted)
    code, told, error = run("demo", "--out", tmp_path)
    assert (code, told, error) == (130, "", "Interrupted: there is no report.\n")
    assert list(tmp_path.iterdir()) == []


def test_datasets_are_listed_with_their_sizes(run):
    code, told, error = run("datasets")
    assert (code, error) == (0, "")
    for name in ("digits", "mnist", "fashion-mnist", "scm1d", "70000", "784"):
        assert name in told


@pytest.mark.processes
def test_help_tells_of_all_commands_without_loading_them():
    script = (
        "import sys; sys.argv = ['proxlin', '--help']\n"
        "from proxlin.app.cli.main import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n"
        "    print(sorted(n for n in sys.modules if n == 'torch' or '.cli.' in n))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert all(name in told for name in cli.COMMANDS)
    loaded = told.splitlines()[-1]
    assert "torch" not in loaded
    assert not [name for name in cli.COMMANDS if f"cli.{name}'" in loaded]


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_on_all_commands_says_of_each_what_its_own_help_says(command):
    function = getattr(import_module(f"proxlin.app.cli.{command}"), command)
    assert cli.COMMANDS[command] == function.__doc__.split("\n")[0]


@pytest.mark.parametrize("arguments", [("--help",), ("fit", "--help")])
def test_options_that_take_no_value_are_shown_without_one(run, arguments):
    code, told, _ = run(*arguments)
    assert code == 0
    assert "--help" in told
    assert "<bool>" not in told


def test_the_version_is_that_of_the_package(run):
    assert run("--version") == (0, f"proxlin {proxlin.__version__}\n", "")


@pytest.mark.parametrize("below", ["", "below"], ids=["a file", "below a file"])
def test_a_folder_that_cannot_be_made_is_one_sentence(run, tmp_path, below):
    (tmp_path / "file").write_text("kept")
    out = tmp_path / "file" / below
    code, told, error = run("demo", "--seconds", 0.3, "--out", out)
    assert (code, told) == (2, "")
    assert error.startswith(f"proxlin: --out must name a folder that can be written to; got {out}")
    assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_that_cannot_be_written_to_is_refused_before_training(run, tmp_path, monkeypatch):
    def refuse(dir):  # noqa: A002
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(output, "TemporaryFile", refuse)
    monkeypatch.setattr(demo, "run_demo", lambda **_: pytest.fail("it trained first"))
    code, _, error = run("demo", "--out", tmp_path)
    assert code == 2
    assert error == (
        "proxlin: --out must name a folder that can be written to;"
        f" got {tmp_path}: Permission denied.\n"
    )


def test_an_error_of_the_library_is_one_sentence(run, tmp_path):
    code, _, error = run("demo", "--seconds", 0.3, "--seed", -1, "--out", tmp_path)
    assert code == 2
    assert error.startswith("proxlin: ")
    assert "seed" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--seconds", "soon"], "--seconds"),
        (["demo", "--seconds", "0"], "--seconds"),
        (["demo", "--ratio", "2"], "--ratio"),
        (["demo", "--sconds", "1"], "--sconds"),
        (["demon"], "Did you mean 'demo'"),
    ],
)
def test_bad_options_are_refused_by_name(run, arguments, words):
    code, told, error = run(*arguments)
    assert (code, told) == (2, "")
    assert words in error
    assert "Traceback" not in error


@pytest.mark.processes
def test_module_and_script_are_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "proxlin", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert "Traceback" not in done.stderr
    (script,) = entry_points(group="console_scripts", name="proxlin")
    assert script.load() is cli.main
