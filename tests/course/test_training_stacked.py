"""stacked.py: nets side by side do what each of them does alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import training
from normlib import layers

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


class Normed(nn.Module):
    """BatchNorm of each net, by the library's layer."""

    def __init__(self, shape):
        super().__init__()
        nets, _, self.width = shape
        self.norms = nn.ModuleList(layers.BatchNorm1d(self.width) for _ in range(nets))

    def forward(self, h):
        return torch.stack([norm(part) for norm, part in zip(self.norms, h, strict=True)])


class OneForAll(nn.Module):
    """BatchNorm of all columns of all nets by one layer, as lesson 01 has it."""

    def __init__(self, shape):
        super().__init__()
        nets, _, self.width = shape
        self.norm = layers.BatchNorm1d(nets * self.width)

    def forward(self, h):
        columns = h.transpose(0, 1).flatten(1)
        return self.norm(columns).unflatten(1, (-1, self.width)).transpose(0, 1)


def alone(nets, place):
    """One of the nets, made of torch's own layers."""
    chain = []
    for part in nets:
        if isinstance(part, nn.ReLU):
            chain.append(nn.ReLU())
        elif isinstance(part, Normed | OneForAll):
            chain.append(layers.BatchNorm1d(part.width))
        else:
            weight = part.weight[place].detach()
            linear = nn.Linear(*weight.shape)
            with torch.no_grad():
                linear.weight.copy_(weight.T)
                linear.bias.zero_()
            chain.append(linear)
    return nn.Sequential(*chain)


@pytest.mark.parametrize(
    ("norm", "clip"),
    [(None, None), (Normed, None), (None, 0.5), (OneForAll, 0.5)],
    ids=["none", "batch norm", "none, clipped", "batch norm, clipped"],
)
@pytest.mark.parametrize("after", [False, True])
def test_each_net_learns_as_it_does_alone(data, norm, after, clip):
    nets = training.stacked_mlp(2, norm, factor=1.5, after=after, nets=3, width=8)
    single = alone(nets, 1)
    training.train_stacked(nets, data, steps=20, lr=0.1, batch_size=300, clip=clip)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(single.parameters(), lr=0.1)
    done = 0
    shortened = 0
    while done < 20:
        order = torch.randperm(1000, generator=generator)
        for start in (0, 300, 600):
            if done < 20:
                rows = order[start : start + 300]
                optimizer.zero_grad()
                F.cross_entropy(single(data.train_x[rows]), data.train_y[rows]).backward()
                if clip is not None:
                    length = nn.utils.clip_grad_norm_(single.parameters(), clip)
                    shortened += int(length > clip)
                optimizer.step()
                done += 1
    assert (shortened > 0) == (clip is not None)
    with torch.no_grad():
        got = nets.eval()(data.validation_x)[1]
        want = single.eval()(data.validation_x)
    # 20 steps of O(1) numbers: rounding of 1e-16 grows a little in each
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    right = (want.argmax(1) == data.validation_y).double().mean()
    assert training.stacked_accuracy(nets, data)[1] == right


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
def test_a_length_to_clip_at_is_above_0(data, clip):
    nets = training.stacked_mlp(1, nets=2, width=4)
    with pytest.raises(ValueError, match="train_stacked clips at a length above 0, got"):
        training.train_stacked(nets, data, steps=1, clip=clip)


def test_the_norm_stands_where_it_is_asked_for():
    kinds = [
        [type(part).__name__ for part in training.stacked_mlp(1, Normed, after=after)]
        for after in (False, True)
    ]
    assert kinds[0] == ["StackedLinear", "Normed", "ReLU", "StackedLinear"]
    assert kinds[1] == ["StackedLinear", "ReLU", "Normed", "StackedLinear"]


def test_the_start_is_he_times_the_factor_but_for_the_head():
    nets = training.stacked_mlp(2, factor=3.0, width=200)
    first, second, head = (part.weight.std().item() for part in nets if hasattr(part, "weight"))
    # 5 * 64 * 200 draws and more: the standard deviation is known to less than a percent
    assert first == pytest.approx(3 * (2 / 64) ** 0.5, rel=0.02)
    assert second == pytest.approx(3 * (2 / 200) ** 0.5, rel=0.02)
    assert head == pytest.approx((2 / 200) ** 0.5, rel=0.05)


def test_hidden_weights_have_a_rate_of_their_own(data):
    """One step: what moves at the rate 1, times the rate that each weight has."""
    moved = {}
    for name, rates in {"one": {"lr": 1.0}, "two": {"lr": 0.5, "hidden_lr": 3.0}}.items():
        nets = training.stacked_mlp(2, Normed, nets=2, width=8)
        before = {key: value.clone() for key, value in nets.named_parameters()}
        training.train_stacked(nets, data, steps=1, batch_size=300, **rates)
        moved[name] = {key: value - before[key] for key, value in nets.named_parameters()}
    rate = {"0.weight": 3.0, "3.weight": 3.0}
    assert rate.keys() <= moved["one"].keys()
    for key, step in moved["one"].items():
        # a step is a difference of numbers of size 1
        wanted = rate.get(key, 0.5) * step
        torch.testing.assert_close(moved["two"][key], wanted, rtol=1e-9, atol=1e-12)


def test_what_is_called_after_each_step_sees_the_new_weights_and_may_change_them(data):
    nets = training.stacked_mlp(1, nets=2, width=8)
    head = nets[-1].weight
    start = head.detach().clone()
    moved = []

    def put_back():
        moved.append((head - start).abs().max().item())
        with torch.no_grad():
            head.copy_(start)

    training.train_stacked(nets, data, steps=3, lr=0.1, after_step=put_back)
    assert len(moved) == 3
    assert min(moved) > 0
    assert torch.equal(head, start)
    assert not torch.equal(nets[0].weight, training.stacked_mlp(1, nets=2, width=8)[0].weight)


def test_adam_does_in_each_net_what_it_does_alone(data):
    nets = training.stacked_mlp(1, nets=3, width=8)
    single = alone(nets, 1)
    training.train_stacked(nets, data, steps=3, lr=0.01, optimizer="adam", batch_size=1000)
    update = torch.optim.Adam(single.parameters(), lr=0.01)
    for _ in range(3):
        loss = F.cross_entropy(single(data.train_x), data.train_y)
        update.zero_grad()
        loss.backward()
        update.step()
    torch.testing.assert_close(nets(data.test_x)[1], single(data.test_x))
