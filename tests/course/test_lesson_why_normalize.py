"""Lesson 00's sentences on other starts, widths, biases and Adam's ε, which no cell shows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def definitions() -> dict:
    """The lesson's digits and its own plain net; nothing is trained."""
    return run_cells("00_why_normalize.ipynb", "setup", "failure-net", "failure-loop")


@torch.no_grad()
def test_a_layer_multiplies_the_size_by_nearly_the_same_factor_in_all_starts():
    x = definitions()["data"].validation_x
    for width in (32, 64, 128):
        for seed in range(20):
            net = training.mlp(depth=30, width=width, start="torch", seed=seed)
            first = net[:2](x).square().mean()
            last = net[:-1](x).square().mean()
            factor = (last / first) ** (1 / 58)  # 29 layers, and the root
            assert 0.355 < factor < 0.435


@pytest.mark.parametrize("seed", range(3))
def test_torchs_own_biases_hold_the_size_and_the_net_fails_as_well(seed):
    lesson = definitions()
    data = lesson["data"]
    chain = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for _ in range(30):
            chain += [nn.Linear(64, 64), nn.ReLU()]
        net = nn.Sequential(*chain, nn.Linear(64, 10))
    with torch.no_grad():
        rows = net[:-1](data.validation_x)
    size = rows.square().mean().sqrt()
    assert 0.05 < size < 0.065
    assert (rows - rows.mean(0)).abs().max() < 1e-6 * size  # all rows are the same
    lesson["train"](net, steps=100, rate=0.3)
    assert lesson["accuracy"](net) < 0.14


@torch.no_grad()
@pytest.mark.parametrize("seed", range(5))
def test_batch_norms_rows_differ_but_not_by_digit(seed):
    data = definitions()["data"]
    net = training.mlp(layers.BatchNorm1d, depth=30, start="torch", seed=seed)
    rows = F.normalize(net[:-1](data.validation_x), dim=1)
    cosine = rows @ rows.T
    same = data.validation_y[:, None] == data.validation_y
    others = ~torch.eye(len(rows), dtype=torch.bool)
    within = cosine[same & others].mean()
    between = cosine[~same].mean()
    assert 0.3 < within < 0.4
    assert abs(within - between) < 0.02


@pytest.mark.slow
def test_adam_learns_with_a_tiny_eps():
    lesson = definitions()
    data, net = lesson["data"], lesson["plain_net"](30)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001, eps=1e-16)
    for _ in range(20):
        for batch in torch.randperm(1000, generator=generator).split(64)[:15]:
            loss = F.cross_entropy(net(data.train_x[batch]), data.train_y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    right = net(data.validation_x).argmax(1) == data.validation_y
    assert 0.25 < right.double().mean() < 0.6  # it learns, slowly; with torch's eps: opening_adam
