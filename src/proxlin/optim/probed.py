"""Probed as a torch.optim.Optimizer: the step of `minimize` on whatever batch a closure has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from proxlin._checks import check_count, check_positive, check_seed
from proxlin.errors import InvalidInputError, ProxlinError, said
from proxlin.methods import Probed as Settings
from proxlin.methods.contract import Budget
from proxlin.methods.probed.state import ProbedState
from proxlin.optim.closure_problem import Closure, ClosureProblem
from proxlin.optim.memory import as_plain, restored
from proxlin.optim.row_units import RowUnits
from proxlin.problem.loss import Exponent
from proxlin.problem.module_copy import check_apart
from proxlin.terms import Constraint, Regularizer
from proxlin.terms.layout import Layout


class Probed(torch.optim.Optimizer):
    """theta <- argmin over C of slope . s + 1/(2 length) s^T (C + damping) s + g(theta + s).

    The closure of a step returns the residual rows (B, N) of its batch, not their loss; `step`
    returns the mean ||r_i||_p of the batch before the step. It is called again within a step, for
    the same batch and with the same random numbers of torch, where the step is checked. There is no
    learning rate, `zero_grad` and `backward` are not needed, and clipping is not either. The first
    step tells the size of the targets and moves a linear last layer to their units.

    Under torchrun, or where torch.distributed is set up, all processes step together: each closure
    returns rows of its own, sums go over all of them, the parameters of rank 0 are the start, and
    the parameters stay alike to the bit. Do not wrap the module in DistributedDataParallel.

    Parameters
    ----------
    params
        `module.named_parameters()`, so that a bias is seen together with its weight and terms can
        name what they act on; `module.parameters()` works too.
    p
        A number >= 1, `inf`, or `"mse"`.
    regularizer, constraint
        Parts of `proxlin.terms`: g and C. The parameters are projected on C at once.
    total_steps
        The length of steps falls to 0 over so many; None keeps it as it is. In nets beyond 1,500
        parameters the first 6 to 16 % of them (79 to 190 steps without `total_steps`) try two or
        three lengths, which takes the parameters back each time; below 500 nothing is tried.
    steps, length, momentum, curvature, window, renewal
        As in `proxlin.Probed`. With steps="curvature" nothing is tried.

    >>> from torch import nn
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> y = x @ torch.tensor([[1.0], [2.0], [3.0]])
    >>> module = nn.Linear(3, 1)
    >>> optimizer = Probed(module.named_parameters(), p=1, total_steps=100)
    >>> for _ in range(100):
    ...     loss = optimizer.step(lambda: module(x) - y)
    >>> bool(loss < 0.05)
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        p: Exponent = 1.0,
        *,
        regularizer: Regularizer | None = None,
        constraint: Constraint | None = None,
        total_steps: int | None = None,
        seed: int = 0,
        steps: str = "auto",
        length: float = 0.3,
        momentum: float = 0.9,
        curvature: str = "auto",
        window: int = 300,
        renewal: int = 5,
    ) -> None:
        try:
            super().__init__(params, _Group())
        except (TypeError, ValueError) as cause:
            if isinstance(cause, ProxlinError):
                raise
            raise InvalidInputError(
                "params must be such as module.named_parameters(); got"
                f" {type(params).__name__}: {cause}."
            ) from cause
        parameters = _named(self.param_groups)
        self._problem = ClosureProblem(parameters, p, regularizer, constraint)
        # The batches are the caller's; the least size keeps the method from choosing one.
        self._settings = Settings(
            batch_size=1, steps=steps, length=length, momentum=momentum, curvature=curvature,
            window=window, renewal=renewal,
        )  # fmt: skip
        self._budget = Budget(
            None,
            None if total_steps is None else check_count("Probed(total_steps=...)", total_steps),
        )
        self._generator = torch.Generator().manual_seed(check_seed("Probed(seed=...)", seed))
        start = self._problem.processes.broadcast(self._problem.theta())
        self._problem.assign(self._problem.penalty.project(start))
        self._memory = self._begin()
        self._trainable = self._trainable_now()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take the parameters of a group, of those that the optimiser begins with."""
        if hasattr(self, "_problem"):
            raise InvalidInputError(
                "Probed steps with all parameters at once and takes none later; make a new one,"
                " Probed(module.named_parameters(), ...)."
            )
        others = sorted(set(param_group) - {"params", "param_names"})
        if others:
            raise InvalidInputError(
                f"the groups of Probed hold parameters only; got {', '.join(others)}. Leave it out;"
                ' regularizer=Ridge(..., on="0.*") charges for parameters by name.'
            )
        super().add_param_group(_Group(param_group))

    def step(self, closure: Closure | None = None) -> Tensor:  # type: ignore[override]
        """One step on the batch of the closure; returns its mean loss before the step."""
        if not callable(closure):
            given = "none" if closure is None else type(closure).__name__
            raise InvalidInputError(
                "Probed.step needs a closure that returns the residual rows of a batch; got"
                f" {given}. Write optimizer.step(lambda: module(x) - y)."
            )
        if self._trainable != self._trainable_now():
            raise InvalidInputError(
                "the parameters must stay what they were; some changed requires_grad, shape, type"
                " or device since. Make a new Probed(module.named_parameters(), ...)."
            )
        problem, kind = self._problem, self._problem.device.type
        problem.closure = _cast_as_here(closure, kind)
        before = problem.theta()  # others may have written into the module
        try:
            with torch.no_grad(), torch.autocast(kind, enabled=False):
                if not problem.begun:
                    problem.choose_units()
                    self._memory = self._begin()
                self._memory.theta = problem.theta()
                self._settings.step(problem, self._memory, self._budget)
        except BaseException:
            if not problem.begun:
                problem.use(None)
                problem.assign(before)
                self._memory = self._begin()
            self._memory.theta = before  # a step that fails moves nothing
            raise
        finally:
            problem.assign(self._memory.theta)
            problem.release()
        problem.begun = True
        self._budget.iteration += 1
        return torch.tensor(problem.batch_loss, dtype=problem.dtype)

    def averaged(self) -> dict[str, Tensor]:
        """The average of the latest points by name, often a little better than the last one."""
        average = self._memory.average
        point = self._memory.theta if average is None else average
        return {name: part.clone() for name, part in self._problem.outside(point).items()}

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on beside the parameters."""
        state = super().state_dict()
        state["probed"] = {
            "steps": self._budget.iteration,
            "shapes": [list(shape) for shape in self._problem.layout.shapes],
            "units": as_plain(self._problem.units),
            "memory": as_plain(self._memory),
        }
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as the optimiser that gave this; load the module's parameters too."""
        if not isinstance(state_dict, dict) or "probed" not in state_dict:
            raise InvalidInputError(
                "state_dict must be one of proxlin.optim.Probed; got something else, such as"
                " that of another optimiser."
            )
        drawn = self._generator.get_state()
        try:
            own = state_dict["probed"]
            shapes = [tuple(shape) for shape in own["shapes"]]
            if shapes != list(self._problem.layout.shapes):
                raise TypeError(f"parameters of shapes {shapes}")
            steps = check_count("steps", own["steps"], minimum=0)
            memory = restored(self._begin(), own["memory"])
            if memory.theta.dtype != self._problem.dtype:
                raise TypeError(f"parameters of {memory.theta.dtype}")
            units = _restored_units(own.get("units"), self._problem.layout)
            super().load_state_dict({k: v for k, v in state_dict.items() if k != "probed"})
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as cause:
            self._generator.set_state(drawn)
            raise InvalidInputError(
                "state_dict must be of a Probed for the same parameters with the same steps,"
                f" curvature, regularizer and constraint; got {said(cause)}."
            ) from cause
        self.param_groups = [_Group(group) for group in self.param_groups]
        self._memory = memory
        self._problem.use(units)
        self._budget.iteration = steps
        self._problem.begun = steps > 0

    def __getstate__(self) -> dict[str, Any]:
        raise InvalidInputError(
            "Probed cannot be copied or pickled, because it steps with one module's parameters;"
            " keep its state_dict() and load that into a new one."
        )

    def _trainable_now(self) -> list[tuple[Any, ...]]:
        tensors = [tensor for group in self.param_groups for tensor in group["params"]]
        return [(t.requires_grad, t.shape, t.dtype, t.device) for t in tensors]

    def _begin(self) -> ProbedState:
        return self._settings.init(self._problem, self._problem.theta(), self._generator)


def _restored_units(plain: Any, layout: Layout) -> RowUnits | None:
    if plain is None:
        return None
    names = tuple(layout.names[layout.names.index(name)] for name in plain["last"])
    return RowUnits(check_positive("scale", plain["scale"]), names)


class _Group(dict[str, Any]):
    """A group of parameters, or the defaults of all, which says what is asked for in vain."""

    def __missing__(self, key: str) -> Any:
        self._refuse(key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if key == "momentum":  # OneCycleLR asks for it before the learning rate
            self._refuse("lr")
        return super().__contains__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._refuse(key)
        super().__setitem__(key, value)

    def _refuse(self, key: str) -> None:
        if key == "lr":
            raise InvalidInputError(
                "Probed has no learning rate to schedule; give it total_steps instead, over which"
                " the length of its steps falls to 0."
            )
        if key == "weight_decay":
            raise InvalidInputError(
                "Probed has no weight decay of a group; give it regularizer=Ridge(1e-4) instead."
            )


def _cast_as_here(closure: Closure, kind: str) -> Closure:
    """The closure under the autocast of its caller, which is none of the step's own algebra."""
    if not torch.is_autocast_enabled(kind):
        return closure
    dtype = torch.get_autocast_dtype(kind)

    def cast() -> Tensor:
        # The parameters move in place between two calls: casts of them must not be remembered.
        with torch.autocast(kind, dtype=dtype, cache_enabled=False):
            return closure()

    return cast


def _named(groups: list[dict[str, Any]]) -> dict[str, Tensor]:
    """The trainable parameters by name; unnamed ones are paired as weights and their biases."""
    names = [name for group in groups for name in group.get("param_names", [])]
    if len(set(names)) < len(names):  # of several modules, each a group
        names = [
            f"{number}.{name}"
            for number, group in enumerate(groups)
            for name in group["param_names"]
        ]
    tensors = [tensor for group in groups for tensor in group["params"]]
    if any(isinstance(tensor, nn.UninitializedParameter) for tensor in tensors):
        raise InvalidInputError(
            "params must have shapes; got some without one. Call the module with a few rows first."
        )
    if not names:
        for position, tensor in enumerate(tensors):
            before = tensors[position - 1] if position else tensor
            bias = tensor.ndim == 1 and before.ndim > 1 and len(before) == len(tensor)
            names.append(f"{position - 1}.bias" if bias else f"{position}.weight")
    trainable = {n: t for n, t in zip(names, tensors, strict=True) if t.requires_grad}
    if not trainable:
        raise InvalidInputError("params must hold some that require a gradient; got none.")
    kinds = {(tensor.dtype, tensor.device) for tensor in trainable.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
        raise InvalidInputError(
            "params must be float32 or float64, all alike on one device; got"
            f" {', '.join(sorted(f'{dtype} on {device}' for dtype, device in kinds))}."
        )
    if len({id(tensor) for tensor in tensors}) < len(tensors):
        raise InvalidInputError("params must hold each parameter once; got some twice.")
    check_apart(dict(zip(names, tensors, strict=True)))
    return trainable
