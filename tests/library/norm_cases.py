"""What the tests of functions and layers share: inputs, and calls by name."""

import torch

import normcourse

EPS = 1e-3  # large, so that a wrong place of eps shows
NORMS = (
    "batch_norm",
    "batch_norm_eval",
    "layer_norm",
    "layer_norm_2",
    "rms_norm",
    "group_norm",
    "instance_norm",
)
PER_CHANNEL = {"batch_norm", "batch_norm_eval", "group_norm", "instance_norm"}
SHAPES = {  # smallest; prime; every rank that torch takes; a row longer than a vector register
    "batch_norm": [(2, 1), (5, 3), (2, 7, 3), (4, 3, 5, 2), (2, 3, 1, 3, 2), (67, 2)],
    "batch_norm_eval": [(1, 1), (5, 3), (2, 7, 3), (4, 3, 5, 2), (2, 3, 1, 3, 2)],
    "layer_norm": [
        (7,),
        (1, 1),
        (5, 1),
        (3, 7),
        (2, 5, 13),
        (2, 1, 4, 5),
        (2, 3, 1, 3, 2),
        (2, 384),
    ],
    "layer_norm_2": [(1, 1), (3, 7), (2, 5, 13), (2, 1, 4, 5)],
    "rms_norm": [(7,), (1, 1), (5, 1), (3, 7), (2, 5, 13), (2, 1, 4, 5), (2, 3, 1, 3, 2), (2, 384)],
    "group_norm": [(2, 2), (3, 4), (1, 6, 5), (2, 4, 3, 5), (2, 4, 1, 3, 2), (2, 26, 7)],
    "instance_norm": [(1, 1, 2), (2, 3, 7), (2, 3, 4, 5), (2, 3, 1, 3, 2)],
}
SMALL = {  # one small input a norm, for the tests of every transformation
    "batch_norm": (4, 3),
    "batch_norm_eval": (2, 3, 2),
    "layer_norm": (2, 5),
    "layer_norm_2": (2, 2, 3),
    "rms_norm": (2, 5),
    "group_norm": (2, 4, 2),
    "instance_norm": (2, 2, 3),
}
CASES = [(norm, shape) for norm in NORMS for shape in SHAPES[norm]]


def draw(*shape, seed=0, dtype=torch.float64):
    """Normal numbers with mean 1, drawn in float64."""
    return (normcourse.draw(*shape, seed=seed) + 1).to(dtype)


def parameters(norm, shape, dtype=torch.float64):
    """weight and bias, or weight alone, of norm on an input of shape; all different."""
    size = (
        shape[1:2] if norm in PER_CHANNEL else shape[-2:] if norm == "layer_norm_2" else shape[-1:]
    )
    both = [draw(*size, seed=1, dtype=dtype), draw(*size, seed=2, dtype=dtype)]
    return both[:1] if norm == "rms_norm" else both


def apply(functional, norm, x, weight=None, bias=None, eps=EPS):
    """The norm on x, by normlib.functional's or torch's functions;
    batch_norm_eval has fixed statistics.
    """
    match norm:
        case "batch_norm":
            return functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)
        case "batch_norm_eval":
            dtype = x.dtype if weight is None else weight.dtype
            # exact in every dtype, its square too
            mean = (torch.arange(x.shape[1]) % 5 / 4 - 0.5).to(dtype)
            return functional.batch_norm(x, mean, mean.square() + 0.5, weight, bias, eps=eps)
        case "layer_norm":
            return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
        case "layer_norm_2":
            return functional.layer_norm(x, x.shape[-2:], weight, bias, eps)
        case "rms_norm":
            return functional.rms_norm(x, x.shape[-1:], weight, eps)
        case "group_norm":
            return functional.group_norm(x, 2, weight, bias, eps)
        case "instance_norm":
            return functional.instance_norm(x, weight=weight, bias=bias, eps=eps)


def output_and_gradients(function, grad_output, *tensors):
    """function(*tensors), then the gradient of each tensor; the tensors must not change."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    before = [t.detach().clone() for t in tensors]
    output = function(*leaves)
    gradients = torch.autograd.grad(output, leaves, grad_output)
    for leaf, copy in zip(leaves, before, strict=True):
        assert torch.equal(leaf.detach(), copy), "an input was changed in place"
    return [output.detach(), *gradients]
