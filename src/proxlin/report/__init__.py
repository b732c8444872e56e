"""Reports: what was run and what came out, as one HTML file, with tables and pictures beside it."""

from proxlin.report.drawing import panel, write_picture
from proxlin.report.page import write_report
from proxlin.report.parts import Code, Facts, Part, Picture, Report, Section, Text, Tiles
from proxlin.report.table import Field, Figures, Table, write_tables

__all__ = [
    "Code",
    "Facts",
    "Field",
    "Figures",
    "Part",
    "Picture",
    "Report",
    "Section",
    "Table",
    "Text",
    "Tiles",
    "panel",
    "write_picture",
    "write_report",
    "write_tables",
]
