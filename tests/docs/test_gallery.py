"""Every example runs, in a folder of its own and in its short mode, and is in the gallery."""

import json
import sys
from pathlib import Path

import pytest

from tests.docs.example import run_example
from tests.forks import together

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem != "__init__")
sys.path.insert(0, str(ROOT / "docs" / "_site"))
import gallery  # noqa: E402

pytestmark = pytest.mark.processes


def test_the_gallery_shows_every_example() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(one.name for one in gallery.examples())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    notes = tmp_path_factory.mktemp("notes")
    ((code, printed, error),) = together(
        run_example, path, tmp_path, ranks=1, folder=notes, timeout=300, PROXLIN_QUICK="1"
    )
    assert code == 0, error
    assert printed.strip(), "an example says what it found"
    assert list(tmp_path.glob("*.png")), "an example has a picture"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_pictures_are_of_the_present_example_which_takes_a_minute_at_most(path: Path) -> None:
    example = gallery.Example(path.stem)
    made = json.loads((gallery.MADE / path.stem / "made.json").read_text())
    assert made["source"] == example.fingerprint(), "run `make gallery` again"
    assert made["seconds"] <= 90  # of the processor, on whatever machine made the pictures
    assert example.pictures()
    assert example.printed().strip()
