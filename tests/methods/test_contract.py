"""What settings say to whoever takes them for something else."""

import inspect

import pytest
from torch import nn

from proxlin import SGD, Adam, Probed
from proxlin.errors import InvalidTypeError


@pytest.mark.parametrize("kind", [Probed, Adam, SGD])
def test_settings_are_no_torch_optimizers(kind):
    parameters = nn.Linear(2, 2).parameters()
    for build, got in (
        (lambda: kind(parameters), "got generator"),
        (lambda: kind(parameters, lr=0.1), "got generator"),
        (lambda: kind(lr=0.1), "got lr"),
    ):
        with pytest.raises(InvalidTypeError) as caught:
            build()
        message = str(caught.value)
        assert got in message
        assert "batch_size" in message
        assert "proxlin.optim.Probed(module.named_parameters())" in message


def test_their_signature_stays():
    assert "learning_rate" in inspect.signature(Adam).parameters
