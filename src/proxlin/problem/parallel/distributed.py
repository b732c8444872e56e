"""The communicator of torch.distributed: gloo for tensors on CPUs, NCCL for those on GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from proxlin.errors import CommunicationError
from proxlin.problem.parallel.communicator import Communicator

_PATIENTLY = timedelta(days=30)  # at barriers: torchrun ends the waiting when another one dies


def reason_of(cause: Exception) -> str:
    """What torch says of it, without its file names and advice."""
    first = str(cause).strip().split("\n")[0]
    return re.sub(r"\[\S*\.cc:\d+\] *", "", first).split(". ")[0].rstrip(".")


@cache
def _patient_group() -> Any:
    """All processes again, by gloo also where there are GPUs, for waits that may take hours."""
    return dist.new_group(backend="gloo", timeout=_PATIENTLY)


class Distributed(Communicator):
    """All processes of torch.distributed's default group.

    Where one of them dies or its network does, the calls of the others raise `CommunicationError`:
    at once if the connection is closed, after the group's timeout if it is silent.
    """

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.leads = self.rank == 0
        gloo = "gloo" in str(dist.get_backend_config())
        self._device = torch.device("cpu" if gloo else "cuda")  # of numbers that have none

    def sum(self, tensor: Tensor) -> Tensor:
        """One all-reduce; its result is made in one place and sent out, so all have its bits."""
        whole = self._within_reach(tensor)
        with self._waiting_for("a sum"):
            dist.all_reduce(whole)
        return whole.to(tensor.device)

    def sum_together(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors end to end in one all-reduce."""
        flat = self.sum(torch.cat([tensor.reshape(-1) for tensor in tensors]))
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def largest(self, values: Sequence[float]) -> list[float]:
        """One all-reduce of float64."""
        numbers = torch.tensor(values, dtype=torch.float64, device=self._device)
        with self._waiting_for("a maximum"):
            dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
        highest: list[float] = numbers.tolist()
        return highest

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The tensor of rank 0; those of the others are overwritten."""
        whole = self._within_reach(tensor)
        with self._waiting_for("rank 0"):
            dist.broadcast(whole, src=0)
        return whole.to(tensor.device)

    def each(self, value: Any) -> list[Any]:
        """One all-gather of pickled values."""
        values: list[Any] = [None] * self.size
        with self._waiting_for("the values of all"):
            dist.all_gather_object(values, value)
        return values

    def first(self, value: Any) -> Any:
        """One broadcast of a pickled value."""
        values = [value]
        with self._waiting_for("rank 0"):
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def barrier(self) -> None:
        """Wait longer than any timeout of a sum, since others may have hours of work left."""
        with self._waiting_for("all to arrive"):
            dist.monitored_barrier(_patient_group())

    def _within_reach(self, tensor: Tensor) -> Tensor:
        """The tensor in one piece, where NCCL is all there is on a GPU."""
        return (tensor if self._device.type == "cpu" else tensor.to(self._device)).contiguous()

    @contextmanager
    def _waiting_for(self, awaited: str) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError) as cause:
            reason = reason_of(cause)
            raise CommunicationError(
                f"rank {self.rank} of {self.size} waited for {awaited} and another process of the"
                f" run is gone or silent ({reason}). Start all of them again; torchrun"
                " --max-restarts does so, and checkpoint=... lets training go on where it was."
            ) from cause
