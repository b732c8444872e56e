import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxlin.run.storage import digest, without_checksum, dump_checked

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.text().filter(lambda key: key != "checksum")


@given(st.dictionaries(KEYS, PLAIN, max_size=4), st.sampled_from([None, 1]))
def test_what_was_sealed_comes_back(body, indent):
    assert without_checksum(json.loads(dump_checked(body, indent=indent))) == body


@given(st.dictionaries(KEYS, PLAIN, max_size=4), KEYS)
def test_a_change_is_noticed(body, key):
    whole = json.loads(dump_checked(body))
    assert without_checksum({**whole, key: "changed"}) is None or body.get(key) == "changed"
    assert without_checksum({**whole, "checksum": digest(b"")}) is None
    assert without_checksum(body) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_lacks_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        dump_checked({"a": value})
