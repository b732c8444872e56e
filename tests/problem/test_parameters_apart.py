"""Parameters that lie in one piece of memory."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from proxlin import Problem
from proxlin.errors import InvalidInputError

DATA = torch.randn(6, 3), torch.randn(6, 2)


def test_pieces_of_one_vector_are_allowed():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    vector_to_parameters(parameters_to_vector(net.parameters()).detach(), net.parameters())
    assert Problem(net, DATA).layout.size == 26


def test_pieces_that_overlap_are_refused():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    net[0].weight.data = torch.arange(12.0)[:9].view(3, 3)
    net[1].weight.data = net[0].weight.data.flatten()[1:7].view(2, 3)
    with pytest.raises(InvalidInputError, match="must not share memory"):
        Problem(net, DATA)


def test_frozen_ones_may_share_theirs():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    net[0].weight = nn.Parameter(torch.ones(1).expand(3, 3), requires_grad=False)
    assert Problem(net, DATA).layout.size == 11
