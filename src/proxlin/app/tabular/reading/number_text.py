"""One number as people write it: currencies, thousands, decimals, minus signs, units."""

from __future__ import annotations

import math
import re

LARGEST = 1e150  # beyond it squares overflow; such a cell is a mistake or a mark for "none"

_MARKS = " \t\u00a0\u202f$€£¥₹%*"  # currencies, footnotes and the like around a number
_CURRENCY = re.compile(  # ahead of a number; behind it is a unit like others
    r"(EUR|USD|GBP|JPY|CHF|CNY|INR|AUD|CAD|NZD|HKD|SGD|KRW|BRL|MXN|ZAR|SEK|NOK|DKK|PLN|CZK|HUF|TRY"
    r"|US\$|R\$|Rs\.?|kr\.?|Fr\.?)\s?(?=[-\d(])"
)
_MINUS = "\u2212"  # the typographic one
_NO_CENTS = re.compile(r"(?<=\d)[.,][-\u2013\u2014]{1,2}$")  # 1'200.- and 12,\u2013 are whole
_GAPS = " '\u2019\u00a0\u2009\u202f"  # between thousands, besides points and commas
_PARTED = re.compile(rf"[1-9]\d{{0,2}}([{_GAPS}])\d{{3}}(?:\1\d{{3}})*(?![\d{_GAPS}])", re.ASCII)
# No group of thousands begins with 0: 0,126 is an eighth.
_POINT = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+|[1-9]\d{0,2}(,\d{3})+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII
)
_COMMA = re.compile(
    r"[-+]?(\d+(,\d*)?|,\d+|[1-9]\d{0,2}(\.\d{3})+(,\d*)?)([eE][-+]?\d+)?", re.ASCII
)
_MEASURED = re.compile(  # 58.4 kg, 120m², 21 °C, 80 km/h
    rf"[-+\u2212]?\d[\d.,]*(?:[{_GAPS}]\d{{3}}[\d.,]*)*\s?(°?[^\W\d_]{{1,5}}(?:/[^\W\d_]{{1,3}})?[²³23]?)"
)


def number_in(text: str, *, comma: bool) -> float:
    """The number, NaN where the text is none; `comma` stands before the decimals.

    >>> number_in("$1,200.50", comma=False), number_in("(1.200,50 €)", comma=True)
    (1200.5, -1200.5)
    """
    text = _CURRENCY.sub("", text.replace(_MINUS, "-").strip(_MARKS), count=1)
    text = _NO_CENTS.sub("", text)
    sign = ""
    if text.startswith("-"):
        sign, text = "-", text[1:]
    elif text.endswith("-"):  # as bookkeepers write it, or in brackets
        sign, text = "-", text[:-1]
    elif text.startswith("(") and text.endswith(")"):
        sign, text = "-", text[1:-1]
    text = text.strip(_MARKS)
    parted = _PARTED.match(text)
    if parted:
        text = parted[0].replace(parted[1], "") + text[parted.end() :]
    bare = sign + text
    if not (_COMMA if comma else _POINT).fullmatch(bare):
        return float("nan")
    plain = bare.replace(".", "").replace(",", ".") if comma else bare.replace(",", "")
    value = float(plain)
    return value if abs(value) <= LARGEST else float("nan")


def unit_behind(text: str) -> str:
    """What follows the number, nothing where the text is not a number and a unit."""
    match = _MEASURED.fullmatch(text)
    return match[1] if match else ""


def is_measured(text: str) -> bool:
    """Whether the text is a number and a unit.

    >>> is_measured("58.4 kg"), is_measured("120m²"), is_measured("3 rooms or more")
    (True, True, False)
    """
    return bool(unit_behind(text))


def is_number(text: str) -> bool:
    """Whether the text is one number and nothing else, its decimals after a point or a comma.

    >>> is_number("-5,3"), is_number("+3"), is_number("-1+1")
    (True, True, False)
    """
    return any(not math.isnan(number_in(text.strip(), comma=comma)) for comma in (False, True))
