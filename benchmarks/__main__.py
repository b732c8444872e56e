"""Print every registered table, or those that are named."""

from __future__ import annotations

import sys
from importlib import import_module

TABLES = (
    "prox",
    "jacobians",
    "sadm",
    "memory",
    "scaling",
    "checkpoints",
    "convergence",
    "regression",
    "factorization",
    "outliers",
    "tables",
)  # modules of this package whose main() prints a table
LONG = (
    "methods",
    "collapse",
    "proximal_terms",
    "sample_complexity",
    "training_loop",
    "wide_steps",
    "wrong_targets",
)  # minutes to hours: only by name


def main(names: list[str]) -> int:
    """Run the named tables, all but the long ones by default; 2 for a name that is none."""
    known = TABLES + LONG
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no table {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or TABLES:
        import_module(f"benchmarks.{name}").main([])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
