"""Start real processes with torchrun; each launch ends by itself or is ended after a timeout."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 240.0  # seconds; a busy machine takes many times what an idle one does


def command(script, *arguments, ranks, options=()):
    """The command line of torchrun on this machine alone."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, "--nproc-per-node", str(ranks), *options, str(script), *map(str, arguments)]


def environment(**more):
    """One thread a process, and this tree's modules."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **more,
    }


def torchrun(script, *arguments, ranks, options=(), timeout=TIMEOUT, **more):
    """Run to the end; returns the exit code, stdout and stderr."""
    return subprocess.run(
        command(script, *arguments, ranks=ranks, options=options),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
