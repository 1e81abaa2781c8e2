"""What is measured on a model: right labels, gradients, activations and gradients by depth."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normcourse.training.models import Block


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of right labels in eval mode; every module gets its own mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return (model(x).argmax(1) == y).double().mean().item()
    finally:
        for module, mode in modes.items():
            module.training = mode


def gradient_norm(model: nn.Module) -> float:
    """Over all parameters, after a backward pass."""
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    return torch.stack(norms).norm().item()


def by_depth(model: nn.Module, x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """RMS of the activations h_l and norm of dL/dh_l, after each Block, or else after each ReLU.

    In training mode, on a copy: the model and its running statistics stay as they are.
    """
    probe = copy.deepcopy(model).train()
    outputs = []
    for module in _points(probe):
        module.register_forward_hook(lambda _, __, output: outputs.append(output))
    loss = F.cross_entropy(probe(x), y)
    gradients = torch.autograd.grad(loss, outputs)
    sizes = [h.square().mean().sqrt().item() for h in outputs]
    lengths = [gradient.norm().item() for gradient in gradients]
    return sizes, lengths


def _points(model: nn.Module) -> list[nn.Module]:
    def of_kind(kind: type[nn.Module]) -> list[nn.Module]:
        return [module for module in model.modules() if isinstance(module, kind)]

    return of_kind(Block) or of_kind(nn.ReLU)
