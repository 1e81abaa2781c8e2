"""RMSNorm with the published gradient: the lines of lesson 04, entry by entry."""

import math

import torch

from normcourse import draw
from normcourse.training.published import EPS, PublishedRMSNorm, added, published, tangent
from normlib import functional, gradients

D = 5


def published_line(dy: list[float], x: list[float], w: list[float]) -> list[float]:
    """dL/dx_i of one row, as lesson 04 prints it under "A failure you can see"."""
    r = math.sqrt(sum(v * v for v in x) / D + EPS)
    total = sum(w[j] * dy[j] * x[j] / r for j in range(D))
    return [w[i] / r * (dy[i] - x[i] / r * total / D) for i in range(D)]


def test_its_gradients_are_the_published_line_and_the_right_one_of_the_gain():
    x, dy = draw(2, 3, 2, D)
    w = torch.linspace(0.5, 2.5, D, dtype=torch.float64)
    norm = PublishedRMSNorm(w)
    leaf = x.clone().requires_grad_()
    y = norm(leaf)
    y.backward(dy)
    rows = zip(dy.reshape(-1, D).tolist(), x.reshape(-1, D).tolist(), strict=True)
    line = torch.tensor([published_line(*row, w.tolist()) for row in rows], dtype=torch.float64)
    right, of_gain = gradients.rms_norm_backward(dy, x, (D,), w, EPS)
    torch.testing.assert_close(y, functional.rms_norm(x, (D,), w, EPS))
    torch.testing.assert_close(leaf.grad.reshape(-1, D), line)
    torch.testing.assert_close(norm.weight.grad, of_gain)
    assert (leaf.grad - right).norm() > 0.1 * right.norm()  # it is the wrong one


def test_with_gain_1_it_is_right():
    x, dy = draw(2, 3, D)
    ones = torch.ones(D, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    PublishedRMSNorm(ones)(leaf).backward(dy)
    right = gradients.rms_norm_backward(dy, x, (D,), None, EPS)[0]
    torch.testing.assert_close(leaf.grad, right)


def test_the_two_controls_split_its_mistake_into_length_and_direction():
    x, dy = draw(2, 3, D)
    w = torch.linspace(0.5, 2.5, D, dtype=torch.float64)
    right = gradients.rms_norm_backward(dy, x, (D,), w, EPS)[0]
    length = added(dy, x, w) - right
    direction = tangent(dy, x, w) - right
    torch.testing.assert_close(length + direction, published(dy, x, w) - right)
    torch.testing.assert_close((direction * x).sum(-1), -(right * x).sum(-1))
    cosine = (length * x).sum(-1).abs() / length.norm(dim=-1) / x.norm(dim=-1)
    torch.testing.assert_close(cosine, torch.ones(3, dtype=torch.float64))
