"""Which of the cells of a method speak for it: of Adam, the learning rate that did best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from proxlin.paper.config import Cell, family
from proxlin.paper.store import Record

Group = tuple[str, float, object, int, str]  # dataset, outliers, p, seed, family


def group(cell: Cell) -> Group:
    """What the cells share of which one is chosen."""
    return (cell.dataset, cell.outliers, cell.p, cell.seed, family(cell.method))


def chosen(cells: Iterable[Cell], records: Mapping[str, Record]) -> list[Cell]:
    """Of the finished cells of each group the one with the lowest F_OBJ, in the order given."""
    best: dict[Group, Cell] = {}
    for cell in cells:
        if cell.name in records:
            rival = best.setdefault(group(cell), cell)
            if objective(records[cell.name], cell) < objective(records[rival.name], rival):
                best[group(cell)] = cell
    return list(best.values())


def objective(record: Record, cell: Cell) -> float:
    """F_OBJ in the loss that the cell trained with."""
    return float(record["metrics"][str(cell.p)]["f_obj"])
