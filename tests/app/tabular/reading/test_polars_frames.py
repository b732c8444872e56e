"""Tables of polars in `fit_table`: the same numbers as those of pandas."""

import numpy as np
import pytest

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.errors import InvalidInputError
from tests.app.tabular.houses import houses

polars = pytest.importorskip("polars", reason="polars is not installed")


def test_a_polars_table_is_fitted_and_predicted_as_one_of_pandas():
    settings = FitSettings(targets=("price",), model="linear")
    frame = houses(rows=80)
    twin = polars.DataFrame({name: frame[name].tolist() for name in frame.columns})
    model, same = (fit_table(table, settings).model for table in (frame, twin))
    np.testing.assert_array_equal(model.predict(frame), same.predict(twin))


def test_a_lazy_table_is_refused_by_name():
    with pytest.raises(InvalidInputError, match=r"polars.*LazyFrame"):
        fit_table(polars.LazyFrame({"a": [1.0]}), FitSettings(targets=("a",)))
