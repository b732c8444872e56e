import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxlin.run.storage.checked_json import digest, opened, sealed

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.text().filter(lambda key: key != "checksum")


@given(st.dictionaries(KEYS, PLAIN, max_size=4), st.sampled_from([None, 1]))
def test_what_was_sealed_comes_back(body, indent):
    assert opened(json.loads(sealed(body, indent=indent))) == body


@given(st.dictionaries(KEYS, PLAIN, max_size=4), KEYS)
def test_a_change_is_noticed(body, key):
    whole = json.loads(sealed(body))
    assert opened({**whole, key: "changed"}) is None or body.get(key) == "changed"
    assert opened({**whole, "checksum": digest(b"")}) is None
    assert opened(body) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_lacks_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        sealed({"a": value})
