"""How the processes of torchrun find each other, also after a restart.

torchrun keeps one store of addresses through its restarts, in which those of dead processes are
left: a process that reads one of them before it is replaced fails to connect. Rank 0 therefore
opens a store of its own each time, and the others look for it until they reach one that is alive.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import Store, TCPStore, rendezvous  # type: ignore[attr-defined]

_PLACE = "proxlin/store"  # where torchrun's store says which port is rank 0's
_TRIAL = timedelta(seconds=2)  # for reaching a store that may be long gone


def meet(backend: str, timeout: timedelta) -> None:
    """Set torch.distributed up among the processes that the environment describes."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        dist.init_process_group(backend, timeout=timeout)
        return
    board, rank, size = next(iter(rendezvous("env://", timeout=timeout)))
    host = os.environ["MASTER_ADDR"]
    if rank == 0:
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timeout)
        board.set(_PLACE, str(store.port))
    else:
        store = _found(board, host, timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _found(board: Store, host: str, timeout: timedelta) -> TCPStore:
    end = time.monotonic() + timeout.total_seconds()
    while True:
        port = int(board.get(_PLACE))
        try:
            store = TCPStore(host, port, wait_for_workers=False, timeout=_TRIAL)
        except RuntimeError:  # that of a process that died
            if time.monotonic() > end:
                raise
            continue
        store.set_timeout(timeout)
        return store
