"""How each method looks in every drawing, and what its loss is called."""

from __future__ import annotations

from proxlin.paper.config import Cell, family
from proxlin.report import palette

COLOURS = {
    "probed": palette.BLUE,
    "mbo-sadm": palette.ORANGE,
    "mbo-sgd": palette.GREEN,
    "sgd": palette.GREY,
    "adam": palette.PINK,
    "mse": palette.INK,
}
MARKERS = {"probed": "o", "mbo-sadm": "s", "mbo-sgd": "^", "sgd": "v", "adam": "D", "mse": "x"}


def loss_name(p: object) -> str:
    """What the loss with the exponent `p`, a number or a text, is called."""
    return "squared error" if p == "mse" else f"p = {float(str(p)):g}"


def cell_name(cell: Cell) -> str:
    """Method and loss of a cell, for a label."""
    return "squared error" if cell.p == "mse" else f"{family(cell.method)}, {loss_name(cell.p)}"
