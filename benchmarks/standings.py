"""The standings of a comparison of methods: a table and the curves, from the files of its runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.race import Run

_COLORS = {
    "probed": "#d62728", "mbo-sadm": "#7f7f7f", "adam": "#1f77b4", "adamw": "#17becf",
    "muon": "#2ca02c", "sgd": "#9467bd", "l-bfgs": "#8c564b", "lm": "#bcbd22",
    "soap": "#ff7f0e", "schedule-free": "#e377c2", "psgd-kron": "#000000",
}  # fmt: skip
_SHARE = 1 / 2  # of the rival's time


def write_standings(out: Path) -> pd.DataFrame:
    """Write table.csv, table.md and the curves into `out` and print the table."""
    records = [json.loads(path.read_text()) for path in sorted((out / "runs").glob("*.json"))]
    if not records:
        print("no runs yet")
        return pd.DataFrame()
    table = pd.DataFrame([_row(group) for group in _by_problem(records)])
    table.to_csv(out / "table.csv", index=False)
    (out / "table.md").write_text(_markdown(table, records))
    for autoencoder, name in ((True, "autoencoders.svg"), (False, "others.svg")):
        chosen = [r for r in records if r["autoencoder"] is autoencoder and r["seed"] == 0]
        if chosen:
            _draw(chosen, out / name)
    print(_markdown(table, records))
    return table


def _by_problem(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    names = dict.fromkeys(record["problem"] for record in records)
    return [[r for r in records if r["problem"] == name] for name in names]


def _row(group: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the seeds of one problem."""
    standings = [_standing(record) for record in group]
    first = group[0]
    row: dict[str, Any] = {
        "problem": first["problem"],
        "parameters": first["parameters"],
        "seeds": len(group),
        "probed": median(s["probed"] for s in standings),
        "best rival": median(s["rival"] for s in standings),
        "who": ", ".join(dict.fromkeys(s["who"] for s in standings)),
        "probed / rival": median(s["probed"] / s["rival"] for s in standings),
        "share of its time": median(s["share"] for s in standings),
        "clean rows": median(s["clean"] for s in standings),
        "wrong rows": median(s["wrong"] for s in standings),
        "aside": first.get("aside", False),
    }
    row["lowest"] = row["probed / rival"] < 1
    row["in time"] = row["share of its time"] <= _SHARE
    return row


def _standing(record: dict[str, Any]) -> dict[str, Any]:
    runs = {name: Run(**run) for name, run in record["runs"].items()}
    rivals = {name: run for name, run in runs.items() if name != "probed"}
    who = min(rivals, key=lambda name: rivals[name].objective)
    reached = runs["probed"].when_below(rivals[who].curve[-1])
    ours, clean = runs["probed"].clean, [r.clean for r in rivals.values() if r.clean is not None]
    best, share = rivals[who], record.get("clean_share")
    wrong = math.nan
    if share is not None and best.clean is not None:
        wrong = 1 - share * best.clean / best.objective
    return {
        "wrong": wrong,
        "clean": math.nan if ours is None else ours / min(clean),
        "probed": runs["probed"].objective,
        "rival": rivals[who].objective,
        "who": " ".join(filter(None, (who, record.get("settings", {}).get(who, "")))),
        "share": math.inf if reached is None else reached / record["seconds"],
    }


def _markdown(table: pd.DataFrame, records: list[dict[str, Any]]) -> str:
    seconds = sorted({record["seconds"] for record in records})
    lines = [
        f"Equal seconds for all ({', '.join(f'{s:g}' for s in seconds)} of one thread);"
        " each rival at the best of its settings.",
        "`share of its time`: when `probed` passed the best rival's last objective.",
        "`clean rows`: loss of the clean rows over that of the best rival by them."
        " Problems with * were kept aside.",
        "`wrong rows`: their part of the best rival's objective, which nobody lowers but by"
        " learning them by heart.",
        "",
        "| problem | parameters | probed | best rival | probed / rival | clean rows | wrong rows |"
        " share of its time |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in table.to_dict("records"):
        share = row["share of its time"]
        clean, wrong = (
            "" if math.isnan(row[name]) else f"{row[name]:.3f}"
            for name in ("clean rows", "wrong rows")
        )
        lines.append(
            f"| {row['problem']}{' *' if row['aside'] else ''} | {row['parameters']:,} |"
            f" {row['probed']:.5g} |"
            f" {row['best rival']:.5g} ({row['who']}) | {row['probed / rival']:.3f} |"
            f" {clean} | {wrong} |"
            f" {'not reached' if math.isinf(share) else f'{share:.2f}'} |"
        )
    lowest, in_time = int(table["lowest"].sum()), int(table["in time"].sum())
    lines += ["", f"Lowest on {lowest} of {len(table)} problems; in time on {in_time}"]
    lines[-1] += " (half of the rival's time)."
    failures = {
        f"{name} on {record['problem']}: {reason}"
        for record in records
        for name, reason in record["failures"].items()
    }
    lines += ["", *(f"Failed: {line}" for line in sorted(failures))]
    return "\n".join(lines) + "\n"


def _draw(records: list[dict[str, Any]], path: Path) -> None:
    columns = min(4, len(records))
    rows = math.ceil(len(records) / columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.4 * columns, 2.6 * rows), squeeze=False, layout="constrained"
    )
    for panel in panels.flat[len(records) :]:
        panel.set_axis_off()
    for panel, record in zip(panels.flat, records, strict=False):
        _panel(panel, record)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _panel(panel: Axes, record: dict[str, Any]) -> None:
    for name, run in record["runs"].items():
        width = 2.0 if name == "probed" else 1.0
        curve = [value if math.isfinite(value) else math.nan for value in run["curve"]]
        panel.plot(run["seconds"], curve, label=name, color=_COLORS[name], linewidth=width)
    panel.set(xscale="log", yscale="log", title=record["problem"])
    panel.title.set_fontsize(8)
    panel.tick_params(labelsize=7, which="both")
    panel.set_xlabel("seconds", fontsize=7)
