"""How torch should behave while derivatives of every kind are taken."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

# Remarks of torch on its own inner workings, which a caller can do nothing about.
_REMARKS = (
    ".*have not yet implemented the batching rule.*",
    ".*`torch.jit.script.*` is .*",
    "TF32 acceleration on top of oneDNN",
)


def unfolds(dtype: torch.dtype) -> bool:
    """Whether torch convolves by writing out every patch, which takes the memory of as many."""
    fused: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return dtype != torch.float32 or not fused


@contextmanager
def quietly() -> Iterator[None]:
    """Keep remarks of torch on its own inner workings from the caller."""
    with warnings.catch_warnings():
        for remark in _REMARKS:
            warnings.filterwarnings("ignore", message=remark)
        yield


@contextmanager
def all_derivatives() -> Iterator[None]:
    """Let attention run on operations that have all derivatives instead of fused kernels."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), quietly():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
