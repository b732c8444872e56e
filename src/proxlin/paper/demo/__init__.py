"""The demonstration: what outliers do to squared errors and to robust losses, on embedded data."""

from proxlin.paper.demo.story import completions, demo_frame, demo_report, demo_table
from proxlin.paper.demo.training import (
    LOSSES,
    SHARES,
    Demo,
    DemoRow,
    SharePoint,
    known_points,
    run_demo,
    trace_shares,
)

__all__ = [
    "LOSSES",
    "SHARES",
    "Demo",
    "DemoRow",
    "SharePoint",
    "completions",
    "demo_frame",
    "demo_report",
    "demo_table",
    "known_points",
    "run_demo",
    "trace_shares",
]
