"""Colours of pictures and pages. On a dark page each has a twin of the same name that reads there.

Every colour of a line stands out from its ground by 3:1 or more, every colour of text by 4.5:1.
"""

from __future__ import annotations

INK = "#000000"
PAPER = "#ffffff"
MUTED = "#57606a"
FAINT = "#b0b0b0"  # matplotlib's colour of grid lines
BLUE = "#0072b2"
ORANGE = "#d55e00"
GREEN = "#008f68"
PINK = "#c2649a"
GREY = "#7f7f7f"

LIGHT: dict[str, str] = {
    "ink": "#1b1f24",
    "paper": "#ffffff",
    "muted": MUTED,
    "faint": FAINT,
    "blue": BLUE,
    "orange": ORANGE,
    "green": GREEN,
    "pink": PINK,
    "grey": GREY,
    "ground": "#f5f7f9",  # of the page, around its cards
    "line": "#d8dee4",
    "link": "#0b5cad",
    "strong": "#0a6b4c",  # figures that stand out
    "shade": "#eef2f6",  # heads of tables, code
}

DARK: dict[str, str] = {
    "ink": "#e6e9ee",
    "paper": "#171c23",
    "muted": "#a3adba",
    "faint": "#5a6472",
    "blue": "#56b4e9",
    "orange": "#f28a45",
    "green": "#2fc39a",
    "pink": "#e29ac3",
    "grey": "#a0a0a0",
    "ground": "#0e1217",
    "line": "#303844",
    "link": "#79b8ff",
    "strong": "#5fd3a8",
    "shade": "#202732",
}

# What a picture has as a fixed colour, and the colour of the page that takes its place.
VARIABLES: dict[str, str] = {
    INK: "ink",
    PAPER: "paper",
    MUTED: "muted",
    FAINT: "faint",
    BLUE: "blue",
    ORANGE: "orange",
    GREEN: "green",
    PINK: "pink",
    GREY: "grey",
}
