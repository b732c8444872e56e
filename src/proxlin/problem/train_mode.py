"""What a module in train mode drops at random: off in every evaluation, repeatable in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn


class TrainMode:
    """The train mode of a module's parts, put on their copy for the time of a call.

    `given` is the module as the caller has it, `network` its copy in eval mode.
    """

    def __init__(self, given: nn.Module, network: nn.Module, device: torch.device) -> None:
        pairs = zip(given.modules(), network.modules(), strict=True)
        self.parts = [copied for own, copied in pairs if own.training]
        self._buffers = list(network.buffers())
        self.seed: int | None = None  # of what is dropped now; None: nothing is
        cuda = device.type == "cuda"
        self._state = partial(torch.cuda.get_rng_state, device) if cuda else torch.get_rng_state
        self._go_back = torch.cuda.set_rng_state if cuda else torch.set_rng_state
        self._begin_at = torch.cuda.manual_seed if cuda else torch.default_generator.manual_seed

    @contextmanager
    def drawn(self, seed: int) -> Iterator[None]:
        """Inside, every call drops, and calls with as many rows drop the same."""
        self.seed = seed
        try:
            yield
        finally:
            self.seed = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the parts are in the mode in which they were given, if there is a seed."""
        if self.seed is None:
            yield
            return
        outside = self._state()
        self._begin_at(self.seed)
        for part in self.parts:
            part.training = True
        try:
            yield
        finally:
            for part in self.parts:
                part.training = False
            self._go_back(outside)

    def draws(self, call: Callable[[], object]) -> bool:
        """Whether `call` draws random numbers when the parts are in the mode they were given in."""
        if not self.parts:
            return False
        kept = [buffer.clone() for buffer in self._buffers]  # which a call in train mode may move
        with self.drawn(0), self.applied(), torch.no_grad():
            self.seed = None  # the call itself is not to begin anew
            before = self._state()
            call()
            drew = not torch.equal(before, self._state())
            for buffer, value in zip(self._buffers, kept, strict=True):
                buffer.copy_(value)
        return drew
