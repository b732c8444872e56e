"""Files from strangers: whatever is in them, what comes out is an answer or one of our errors.

Each mutation starts from a whole file and flips, cuts, repeats or replaces bytes; checksums of
models and checkpoints are then computed anew, so that the content itself is read. `make fuzz` tries
as many as fit the time, at random; `make test` a fixed few.
"""

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from proxlin.app.tabular import FitSettings, fit_table, load_model, read_table_file, save_model
from proxlin.app.tabular.detection import detect_outliers
from proxlin.run.storage import digest, dump_checked
from tests.app.tabular.houses import houses
from tests.fuzz.tally import answered_or_refused
from tests.run.checkpoint.runs import CASES, run

pytestmark = pytest.mark.slow
FUZZ = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
# Of what takes a tenth of a second a time; `make fuzz` tries as many as of the others and more.
FEWER = settings(FUZZ, max_examples=settings.default.max_examples // 4)


def csv_bytes():
    return houses(rows=40).to_csv(index=False).encode()


def parquet_bytes():
    pytest.importorskip("pyarrow")
    file = io.BytesIO()
    houses(rows=40).to_parquet(file, index=False)
    return file.getvalue()


def arff_bytes():
    rows = [f"{i},{i % 3 / 7},{'xy'[i % 2]}" for i in range(30)]
    header = "@relation r\n@attribute a real\n@attribute b real\n@attribute c {x,y}\n@data\n"
    return (header + "\n".join(rows)).encode()


def xlsx_bytes():
    pytest.importorskip("openpyxl")
    file = io.BytesIO()
    houses(rows=12).to_excel(file, index=False)
    return file.getvalue()


TABLES = {"csv": csv_bytes, "parquet": parquet_bytes, "arff": arff_bytes, "xlsx": xlsx_bytes}
CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@st.composite
def mutations(draw):
    """A few changes to make to bytes: (kind, place as a share of the length, bytes)."""
    kinds = st.sampled_from(["flip", "cut", "insert", "repeat", "drop"])
    pieces = st.one_of(
        st.binary(min_size=1, max_size=8),
        st.sampled_from(
            [b"\0", b'"', b"\n", b"nan", b"1e999", b"-" * 3, b"99999-99-99", b"{" * 9, b"\x1b[31m"]
        ),
    )
    change = st.tuples(kinds, st.floats(0, 1), pieces)
    return draw(st.lists(change, min_size=1, max_size=4))


def mutated(content, changes):
    for kind, share, piece in changes:
        at = int(share * len(content))
        end = at + len(piece)
        content = {
            "flip": content[:at] + piece + content[end:],
            "cut": content[:at],
            "insert": content[:at] + piece + content[at:],
            "repeat": content[:at] + content[at:end] * 3 + content[end:],
            "drop": content[:at] + content[end:],
        }[kind]
    return content


def read_and_fitted(path):
    """What `proxlin fit` does with a table, by its last column, or one of our errors."""
    with answered_or_refused():
        table = read_table_file(path)
        target = str(table.frame.columns[-1])
        fitted = fit_table(table, FitSettings(targets=(target,), model="linear"))
        assert np.isfinite(fitted.test_answers).all()


def read_and_searched(path):
    """What `proxlin outliers` does with a table alone, or one of our errors."""
    with answered_or_refused():
        found = detect_outliers(read_table_file(path))
        assert np.isfinite(found.judged.scores).all()
        found.worst(20)
        found.odd_cells(20)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_tables_that_once_brought_other_errors(path):
    read_and_fitted(path)
    read_and_searched(path)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", TABLES)
@FEWER
@given(changes=mutations())
def test_tables_are_read_or_refused(tmp_path, kind, packed, changes):
    content = TABLES[kind]()
    content = mutated(gzip.compress(content) if packed else content, changes)
    (tmp_path / "table").write_bytes(content)
    read_and_fitted(tmp_path / "table")


@FEWER
@given(changes=mutations())
def test_tables_are_searched_or_refused(tmp_path, changes):
    (tmp_path / "table").write_bytes(mutated(csv_bytes(), changes))
    read_and_searched(tmp_path / "table")


@FEWER
@given(data=st.data(), changes=mutations())
def test_sheets_in_a_whole_archive_are_read_or_refused(tmp_path, data, changes):
    """The checksums of the archive are right; what is wrong is the XML in it."""
    with zipfile.ZipFile(io.BytesIO(xlsx_bytes())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    changed = data.draw(st.sampled_from(sorted(parts)), label="part")
    parts[changed] = mutated(parts[changed], changes)
    with zipfile.ZipFile(tmp_path / "table", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    read_and_fitted(tmp_path / "table")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz") / "model"
    fitted = fit_table(houses(rows=60), FitSettings(targets=("price",)))
    save_model(fitted.model, folder)
    return folder


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(tree, path=()):
    """Every place in a tree of JSON, the root apart."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def replaced(tree, path, value):
    if not path:
        return value
    changed = dict(tree) if isinstance(tree, dict) else list(tree)
    changed[path[0]] = replaced(tree[path[0]], path[1:], value)
    return changed


@FUZZ
@given(data=st.data())
def test_models_with_a_right_checksum_and_wrong_content_are_refused_or_predict(
    model, tmp_path, data
):
    header = json.loads((model / "model.json").read_bytes())
    header.pop("checksum")
    path = data.draw(st.sampled_from(sorted(places(header), key=str)), label="place")
    header = replaced(header, path, data.draw(PLAIN, label="value"))
    (tmp_path / "model.json").write_bytes(dump_checked(header))
    (tmp_path / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    with answered_or_refused():
        predictions = load_model(tmp_path).predict(houses(rows=5))
        assert len(predictions) == 5


PLAIN_NUMBER = st.one_of(
    st.integers(),
    st.sampled_from([-1, 0, 2**26, -(2**53), 10**400]),
    st.sampled_from(["nan", "inf", "-inf"]).map(lambda text: {"number": text}),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A checkpoint in the middle of a run of each kind, two of them with rows held out."""
    folders = {}
    for case in CASES:
        folders[case] = tmp_path_factory.mktemp("fuzz") / "kept"
        run(case, max_iter=5, checkpoint=folders[case], **held_out(case))
    return folders


def held_out(case):
    return {"held_out": 0.2} if case in ("adam", "probed dense") else {}


@FUZZ
@given(data=st.data())
def test_checkpoints_with_a_right_checksum_and_wrong_content_are_refused_or_gone_on_from(
    kept, tmp_path_factory, data
):
    case = data.draw(st.sampled_from(sorted(CASES)), label="run")
    (path,) = kept[case].glob("*.json")
    content = json.loads(path.read_bytes())
    content.pop("checksum")
    tensors = load(path.with_suffix(".safetensors").read_bytes())
    if data.draw(st.booleans(), label="change a tensor"):
        name = data.draw(st.sampled_from(sorted(tensors)))
        shape = data.draw(st.lists(st.integers(0, 3), max_size=2))
        kind = data.draw(st.sampled_from([torch.float32, torch.int64, torch.bool, torch.uint8]))
        tensors[name] = torch.zeros(shape, dtype=kind)
    else:
        place = data.draw(st.sampled_from(sorted(places(content), key=str)), label="place")
        content = replaced(content, place, data.draw(PLAIN | PLAIN_NUMBER, label="value"))
    raw = save(tensors)
    if isinstance(content.get("tensors"), dict):
        content["tensors"] = {"bytes": len(raw), "sha256": digest(raw)}
    folder = tmp_path_factory.mktemp("kept")
    (folder / path.name).write_bytes(dump_checked(content))
    (folder / path.with_suffix(".safetensors").name).write_bytes(raw)
    with answered_or_refused():
        result = run(case, max_iter=8, checkpoint=folder, **held_out(case))
        assert np.isfinite(result.objective)
