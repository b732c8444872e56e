"""The random numbers that a closure drew, to draw the same ones again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Draws:
    """Where torch's own generators stood when a batch was taken, on the CPU and on `device`."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device if device.type == "cuda" else None
        self._kept = self._states()

    def keep(self) -> None:
        """What is drawn from here on is what `again` draws."""
        self._kept = self._states()

    def go_back(self) -> None:
        """The next numbers are those that `again` draws."""
        self._stand(self._kept)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, the same numbers are drawn as after `keep`; outside, it has drawn none."""
        outside = self._states()
        self._stand(self._kept)
        try:
            yield
        finally:
            self._stand(outside)

    def _states(self) -> list[Tensor]:
        states = [torch.get_rng_state()]
        if self._cuda is not None:
            states.append(torch.cuda.get_rng_state(self._cuda))
        return states

    def _stand(self, states: list[Tensor]) -> None:
        torch.set_rng_state(states[0])
        if self._cuda is not None:
            torch.cuda.set_rng_state(states[1], self._cuda)
