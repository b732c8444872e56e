"""Numbers as people write them: no powers of ten where none is needed, thousands apart."""

from __future__ import annotations

import numpy as np


def show_plain(value: float, digits: int = 6) -> str:
    """So many digits, without an exponent where a person would not use one.

    >>> show_plain(4314280.4), show_plain(269504.3, 4), show_plain(1.5e-9)
    ('4314280', '269500', '1.5e-09')
    """
    short = float(f"{value:.{digits}g}")
    if not 1e-4 <= abs(short) < 1e12:
        return f"{short:g}"
    return np.format_float_positional(short, trim="-")


def show_figure(value: float, digits: int = 4) -> str:
    """So many digits, with commas between thousands.

    >>> show_figure(1234567.8), show_figure(0.01234567), show_figure(-1e15)
    ('1,235,000', '0.01235', '-1e+15')
    """
    text = show_plain(value, digits)
    if "e" in text or "n" in text:
        return text
    whole, point, rest = text.partition(".")
    return f"{int(whole):,}{point}{rest}" if whole not in ("-0", "-") else text
