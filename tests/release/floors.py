"""Print the oldest versions that pyproject.toml allows, one requirement a line.

python tests/release/floors.py [EXTRA ...]
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def floors(*extras: str) -> list[str]:
    """`name==version` for each `name>=version`; what has no floor stays as it is."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    names = {re.split(r"[>=\[]", one)[0] for one in project["dependencies"]}
    lines = [one.replace(">=", "==") for one in wanted[: len(project["dependencies"])]]
    return lines + [one for one in wanted[len(lines) :] if re.split(r"[>=\[]", one)[0] not in names]


if __name__ == "__main__":
    print("\n".join(floors(*sys.argv[1:])))  # noqa: T201
