from __future__ import annotations

import logging
from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin.data import add_outliers
from proxlin.data.corruption import Kind
from proxlin.errors import InvalidInputError

KINDS: list[Kind] = ["published", "text"]


def some_images(n: int = 2000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.rand(n, 1, 6, 6, generator=generator).pow(3)


def some_table(n: int = 4000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(6)
    return torch.randn(n, 3, generator=generator, dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0, 1),
    st.sampled_from(KINDS),
    st.integers(0, 1000),
    st.sampled_from([(30,), (30, 4), (30, 2, 3), (30, 1, 4, 4)]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_only_rows_of_the_mask_change(
    ratio: float, kind: Kind, seed: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    before = x.clone()
    corrupted, mask = add_outliers(x, ratio, kind, seed)
    assert torch.equal(x, before)
    assert (corrupted.dtype, corrupted.shape) == (dtype, x.shape)
    assert (mask.dtype, mask.shape) == (torch.bool, (30,))
    assert torch.equal(corrupted[~mask], x[~mask])
    assert not (corrupted[mask] == x[mask]).flatten(1 if x.ndim > 1 else 0).any()
    again, mask_again = add_outliers(x, ratio, kind, seed)
    assert torch.equal(again, corrupted)
    assert torch.equal(mask_again, mask)


@pytest.mark.parametrize("kind", KINDS)
def test_ends_of_the_ratio(kind: Kind) -> None:
    x = some_images(20)
    clean, none = add_outliers(x, 0, kind)
    assert torch.equal(clean, x)
    assert not none.any()
    _, everything = add_outliers(x, 1.0, kind)
    assert everything.all()


def test_rows_are_chosen_independently_with_the_ratio() -> None:
    n, ratio = 200_000, 0.3
    _, mask = add_outliers(torch.randn(n, 1), ratio, seed=3)
    picked = mask.double()
    deviation = sqrt(ratio * (1 - ratio) / n)
    assert abs(float(picked.mean()) - ratio) < 4 * deviation
    neighbours = ((picked[1:] - ratio) * (picked[:-1] - ratio)).mean()
    assert abs(float(neighbours)) < 4 * ratio * (1 - ratio) / sqrt(n)


def test_smaller_ratio_picks_among_the_rows_of_the_larger() -> None:
    x = some_table(500)
    few, many = (add_outliers(x, ratio, seed=9)[1] for ratio in (0.1, 0.3))
    assert few.sum() < many.sum()
    assert not (few & ~many).any()


def test_seeds_differ_and_global_randomness_is_untouched() -> None:
    x = some_table(100)
    state = torch.random.get_rng_state()
    masks = [add_outliers(x, 0.5, seed=seed)[1] for seed in (1, 2)]
    assert not torch.equal(*masks)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("shift", [None, -3.0])
def test_text_images_have_the_stated_moments(shift: float | None) -> None:
    x = some_images()
    corrupted, mask = add_outliers(x, 0.5, "text", shift=shift)
    noise = corrupted[mask].double()
    mean, std = float(x.mean()), float(x.std(correction=0))
    expected = mean + (1.5 if shift is None else shift) * std
    assert float(noise.mean()) == pytest.approx(expected, abs=4 * std / sqrt(noise.numel()))
    assert float(noise.std()) == pytest.approx(std, abs=4 * std / sqrt(2 * noise.numel()))


def test_text_tables_take_each_column_in_its_own_units() -> None:
    scale, offset = torch.tensor([1.0, 100.0, 1e-3]), torch.tensor([0.0, -500.0, 2.0])
    x = some_table() * scale + offset
    corrupted, mask = add_outliers(x, 0.5, "text")
    std, mean = torch.std_mean(x, dim=0, correction=0)
    z = (corrupted[mask] - mean) / std
    tolerance = 4 / sqrt(len(z))
    torch.testing.assert_close(z.mean(0), torch.full((3,), 2.5).double(), atol=tolerance, rtol=0)
    torch.testing.assert_close(z.std(0), torch.ones(3).double(), atol=tolerance, rtol=0)


def test_published_tables_are_unit_gaussians_around_the_shift() -> None:
    corrupted, mask = add_outliers(some_table(), 0.5)
    noise = corrupted[mask]
    tolerance = 4 / sqrt(noise.numel())
    assert float(noise.mean()) == pytest.approx(2.5, abs=tolerance)
    assert float(noise.std()) == pytest.approx(1, abs=tolerance)


def test_published_images_are_shifted_bytes() -> None:
    x = some_images()
    corrupted, mask = add_outliers(x, 0.5)
    mean, std = float(x.double().mean()), float(x.double().std(correction=0))
    # Undo (u + 1.5 s + m) / s: what is left are bytes over 255, and all of them occur.
    steps = (corrupted[mask].double() * std - 1.5 * std - mean) * 255
    assert float((steps - steps.round()).abs().max()) < 1e-3
    counts = torch.bincount(steps.round().long().flatten(), minlength=256)
    assert len(counts) == 256
    # A Gaussian of width 255 wrapped at 256 is as good as uniform; only the byte 0 has more,
    # since truncation towards 0 gives it the interval (-1, 1).
    expected = counts[1:].double().mean()
    chi_square = float(((counts[1:] - expected) ** 2 / expected).sum())
    assert chi_square < 254 + 4 * sqrt(2 * 254)


def test_form_is_read_off_the_shape_and_can_be_set() -> None:
    x = some_images(50)
    as_images, _ = add_outliers(x, 0.5)
    assert torch.equal(as_images, add_outliers(x, 0.5, form="images")[0])
    flat, mask = add_outliers(x.flatten(1), 0.5, form="images")
    assert torch.equal(flat.reshape(x.shape), as_images)
    as_table, _ = add_outliers(x, 0.5, form="table")
    assert not torch.equal(as_table[mask], as_images[mask])


def test_table_that_is_not_standardised_is_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="proxlin"):
        add_outliers(some_table(), 0.5)
        assert not caplog.records
        add_outliers(100 * some_table(), 0.5)
    assert "meant for standardised columns" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratio": 1.5}, r"ratio=...\) must lie in \[0, 1\]; got 1.5"),
        ({"ratio": -0.1}, "ratio"),
        ({"ratio": float("nan")}, "ratio"),
        ({"kind": "publishd"}, "Did you mean 'published'"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"form": "image"}, "Did you mean 'images'"),
        ({"shift": float("inf")}, "shift"),
        ({"x": torch.zeros(5, 2, dtype=torch.int64)}, "float32 or float64; got torch.int64"),
        ({"x": [1.0, 2.0]}, "must be a torch tensor; got list"),
        ({"x": torch.tensor(1.0)}, r"must have rows.*shape \(\)"),
        ({"x": torch.zeros(0, 3)}, r"must have rows.*shape \(0, 3\)"),
        ({"x": torch.tensor([[1.0, float("nan")]])}, "must be finite; got 1 NaN"),
        ({"x": torch.ones(5, 1, 2, 2)}, "at least two different values"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        add_outliers(**{"x": torch.randn(5, 2), "ratio": 0.9, **arguments})  # type: ignore[arg-type]
