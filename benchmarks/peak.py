"""The most memory that a process has had."""

from __future__ import annotations

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_megabytes() -> float:
    """Of this program alone; `ru_maxrss`, where there is no /proc, begins at its parent's peak."""
    if _STATUS.exists():
        return int(_STATUS.read_text().split("VmHWM:")[1].split()[0]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
