"""Layout: which stretch of the flat parameter vector theta belongs to which named parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from proxlin._checks import nearest, shown
from proxlin.errors import InvalidInputError


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the parameters, in the order in which theta holds them.

    >>> layout = Layout(("weight", "bias"), ((2, 3), (2,)))
    >>> layout.size
    8
    >>> layout.slice("bias")
    slice(6, 8, None)
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, Tensor]]) -> Layout:
        """Read the layout off named tensors, such as `module.named_parameters()`."""
        pairs = [(name, tuple(tensor.shape)) for name, tensor in parameters]
        return cls(tuple(name for name, _ in pairs), tuple(shape for _, shape in pairs))

    @cached_property  # as is the next one: they are asked for many times in each step
    def sizes(self) -> tuple[int, ...]:
        """The number of entries of each parameter."""
        return tuple(prod(shape) for shape in self.shapes)

    @cached_property
    def size(self) -> int:
        """The length d of theta."""
        return sum(self.sizes)

    def slice(self, name: str) -> slice:
        """Where `name` lies in theta."""
        position = self.names.index(name)
        ends = list(accumulate(self.sizes))
        return slice(ends[position] - self.sizes[position], ends[position])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the parameter `name`."""
        return self.shapes[self.names.index(name)]

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Views of theta in the shapes of the parameters; gradients flow through them."""
        if theta.shape != (self.size,):
            raise InvalidInputError(
                f"theta must be a vector of the {self.size} parameters; got shape"
                f" {tuple(theta.shape)}."
            )
        pieces = theta.split_with_sizes(self.sizes)
        return {n: t.view(s) for n, t, s in zip(self.names, pieces, self.shapes, strict=True)}

    def join(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """The flat vector that holds `parameters`."""
        return torch.cat([parameters[name].reshape(-1) for name in self.names])

    def match(self, patterns: str | Iterable[str], *, label: str = "on") -> tuple[str, ...]:
        """Names that match any of the glob patterns, in the order of theta; each must match one."""
        wanted = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in wanted:
            if not any(fnmatchcase(name, pattern) for name in self.names):
                names = ", ".join(self.names)
                raise InvalidInputError(
                    f"{label}={shown(pattern)} must match a parameter name; the module has {names}."
                    + nearest(pattern, self.names)
                )
        return tuple(n for n in self.names if any(fnmatchcase(n, pattern) for pattern in wanted))
