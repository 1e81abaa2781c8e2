"""Weight decay reaches what its name says, and pulls as the optimizer's own does."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from normcourse import draw, training
from normcourse.training.contenders import OffsetRMSNorm
from normlib import layers

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")
BOTH_SIDES = {"build": "residual_mlp", "depth": 2, "width": 8, "placement": "sandwich"}
INPUT = ["1.norm.weight", "2.norm.weight"]
OUTPUT = ["1.output_norm.weight", "2.output_norm.weight"]
LAST = ["3.weight"]
GAINS = {
    "nothing": [],
    "matrices": [],
    "input": INPUT,
    "output": OUTPUT,
    "last": LAST,
    "gains": [*INPUT, *OUTPUT, *LAST],
}


GAINS |= {"matrices_without_head": [], "last_without_head": LAST}


def decaying(net, decayed):
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    first, second = training.decay_groups(net, 0.3, decayed)
    assert (first["weight_decay"], second["weight_decay"]) == (0.3, 0.0)
    chosen = [names[id(parameter)] for parameter in first["params"]]
    rest = [names[id(parameter)] for parameter in second["params"]]
    assert sorted([*chosen, *rest]) == sorted(names.values())
    return chosen


@pytest.mark.parametrize("decayed", [*training.DECAYED, *training.WITHOUT_HEAD])
def test_the_gains_of_a_place_decay_with_the_weights(decayed):
    net = training.build(BOTH_SIDES, "rms_norm", seed=0)
    chosen = decaying(net, decayed)
    matrices = [name for name, parameter in net.named_parameters() if parameter.dim() == 2]
    assert len(matrices) == 6
    if decayed in training.WITHOUT_HEAD:
        assert matrices.pop() == "4.weight"
    assert sorted(chosen) == sorted(([] if decayed == "nothing" else matrices) + GAINS[decayed])


@pytest.mark.parametrize(
    ("placement", "place"), [("pre", "input"), ("post", "output"), ("output", "output")]
)
def test_a_norm_behind_the_branch_is_an_output_norm(placement, place):
    net = training.residual_mlp(layers.RMSNorm, depth=2, width=8, placement=placement)
    sizes = {name: len(gains) for name, gains in training.gains_by_place(net).items()}
    last = 0 if placement == "post" else 1
    assert sizes == {"input": 0, "output": 0, "last": last} | {place: 2}


def test_another_name_is_refused():
    with pytest.raises(ValueError, match=r"needs one of 'nothing', .*, got 'biases'"):
        training.decay_groups(nn.Linear(2, 2), 0.1, "biases")


@pytest.mark.parametrize("optimizer", training.OPTIMIZERS)
def test_decay_is_the_optimizers_own(optimizer):
    data = training.digits()
    ours, theirs = (training.build(BOTH_SIDES, "rms_norm", seed=1) for _ in range(2))
    how = {"steps": 3, "batch_size": 1000, "lr": 0.02, "optimizer": optimizer}
    training.train(ours, data, **how, weight_decay=0.7, decayed="last")
    free = [p for name, p in theirs.named_parameters() if p.dim() < 2 and name != "3.weight"]
    pulled = [p for name, p in theirs.named_parameters() if p.dim() >= 2 or name == "3.weight"]
    groups = [{"params": pulled, "weight_decay": 0.7}, {"params": free, "weight_decay": 0.0}]
    update = training.OPTIMIZERS[optimizer](groups, lr=0.02)
    for _ in range(3):
        update.zero_grad()
        F.cross_entropy(theirs(data.train_x), data.train_y).backward()
        update.step()
    for name, value in ours.state_dict().items():
        # the same 1000 rows in another order: sums of 1000 numbers, and Adam divides by their size
        assert_close(value, theirs.state_dict()[name], rtol=1e-6, atol=1e-7)


def test_an_offset_of_0_is_a_gain_of_1_and_decays_to_it():
    x, w = draw(3, 5), draw(5, seed=1)
    offset, plain = OffsetRMSNorm(5), layers.RMSNorm(5, eps=1e-5)
    assert_close(offset(x), plain(x))
    with torch.no_grad():
        offset.weight.copy_(w)
        plain.weight.copy_(1 + w)
    assert_close(offset(x), plain(x))
    update = torch.optim.AdamW(offset.parameters(), lr=0.5, weight_decay=1.0)
    for _ in range(60):
        offset.weight.grad = torch.zeros(5)
        update.step()
    assert_close(offset(x), layers.RMSNorm(5, eps=1e-5)(x))
