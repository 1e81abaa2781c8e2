"""What the tests of surgery share.

Norms as other libraries write them, trained layers, snapshots.
"""

import torch
from torch import nn
from torch.testing import assert_close

from tests.library.norm_cases import draw


class ForeignRMSNorm(nn.Module):
    """As another library writes it: no size, variance_epsilon, an argument of another name."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(hidden_size)), eps

    def gain(self):
        return self.weight

    def forward(self, hidden_states):
        mean_square = hidden_states.square().mean(-1, keepdim=True)
        return self.gain() * hidden_states * torch.rsqrt(mean_square + self.variance_epsilon)


class OffsetRMSNorm(ForeignRMSNorm):
    def gain(self):
        return 1 + self.weight


def trained(layer, seed=0, dtype=torch.float64):
    """The layer with parameters that no constructor gives."""
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = draw(*parameter.shape, seed=seed + number, dtype=dtype)
    return layer.to(dtype)


def snapshot(model):
    tensors = {key: value.clone() for key, value in model.state_dict().items()}
    flags = [(parameter.requires_grad, id(parameter)) for parameter in model.parameters()]
    return tensors, flags, [(name, id(m), m.training) for name, m in model.named_modules()]


def assert_unchanged(model, before):
    tensors, *others = snapshot(model)
    assert others == list(before[1:])
    assert_close(tensors, before[0], rtol=0, atol=0)
