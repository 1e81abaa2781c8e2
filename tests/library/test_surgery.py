"""Surgery puts new layers where the old ones were, and what was trained survives it."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normlib import layers
from normlib.surgery import replace
from tests.library.norm_cases import draw
from tests.library.surgery_cases import trained

IMAGE = (2, 6, 4, 5)
CASES = [  # old layer, input shape, shape in which the weight broadcasts against the input
    ("LayerNorm", (5,), IMAGE, (5,)),
    ("LayerNorm", ((4, 5),), IMAGE, (4, 5)),
    ("RMSNorm", (5,), IMAGE, (5,)),
    ("BatchNorm1d", (6,), (3, 6), (6,)),
    ("BatchNorm1d", (6,), (3, 6, 4), (6, 1)),
    ("BatchNorm2d", (6,), IMAGE, (6, 1, 1)),
    ("GroupNorm", (2, 6), IMAGE, (6, 1, 1)),
    ("GroupNorm", (2, 6), (3, 6), (6,)),
    ("InstanceNorm1d", (6, 1e-5, 0.1, True), (3, 6, 4), (6, 1)),
    ("InstanceNorm2d", (6, 1e-5, 0.1, True), IMAGE, (6, 1, 1)),
    ("InstanceNorm2d", (6,), IMAGE, (6, 1, 1)),
]
every_norm = pytest.mark.parametrize(("name", "args", "shape", "broadcast"), CASES, ids=str)


def tanh_by_hand(x, alpha, weight, bias):
    return weight * torch.tanh(alpha * x) + bias


@pytest.mark.parametrize("library", [nn, layers], ids=["torch", "ours"])
@every_norm
def test_every_norm_becomes_dyt_with_its_weight_and_bias(library, name, args, shape, broadcast):
    old = trained(getattr(library, name)(*args))
    weight, bias = getattr(old, "weight", None), getattr(old, "bias", None)
    model, report = replace(nn.Sequential(old), type(old), layers.DyT, alpha_init=0.7)
    assert type(model[0]) is layers.DyT
    one, x = torch.ones(1, dtype=torch.float64), draw(*shape)
    weight = one if weight is None else weight.view(broadcast)
    bias = 0 * one if bias is None else bias.view(broadcast)
    assert_close(model(x), tanh_by_hand(x, 0.7, weight, bias))
    assert [(record.paths, record.old) for record in report.replaced] == [(["0"], repr(old))]
    assert report.replaced[0].new == repr(model[0]) and report.left == {}


@every_norm
def test_every_norm_becomes_dyisru_of_slope_one(name, args, shape, broadcast):
    old = trained(getattr(nn, name)(*args))
    model, _ = replace(nn.Sequential(old), type(old), layers.DyISRU)
    x, d = draw(*shape), torch.Size(broadcast).numel()
    got = model(x)
    one = torch.ones(1, dtype=torch.float64)
    weight = one if old.weight is None else old.weight.view(broadcast)
    bias = 0 if getattr(old, "bias", None) is None else old.bias.view(broadcast)
    # scale sqrt(d) and c = scale^2
    assert_close(got, weight * d**0.5 * x / (x.square() + d).sqrt() + bias)


@pytest.mark.parametrize(("name", "args", "shape", "broadcast"), CASES[:-1], ids=str)
def test_torch_to_ours_and_back_changes_nothing(name, args, shape, broadcast):
    """eps, groups, momentum, statistics: the outputs, buffers and state dicts stay torch's."""
    theirs, ours = getattr(nn, name), getattr(layers, name)
    before = nn.Sequential(trained(theirs(*args)))
    before[0].eps = 0.25
    before(draw(*shape))
    there, _ = replace(copy.deepcopy(before), theirs, ours)
    back, _ = replace(copy.deepcopy(there), ours, theirs)
    assert type(there[0]) is ours and there[0].eps == 0.25 and repr(back) == repr(before)
    for model in (there, back):
        assert_close(dict(model.state_dict()), dict(before.state_dict()), rtol=0, atol=0)
        for mode in (True, False):
            want = copy.deepcopy(before).train(mode)(draw(*shape, seed=3))
            assert_close(model.train(mode)(draw(*shape, seed=3)), want)
            model.load_state_dict(before.state_dict())


def test_the_new_layer_takes_over_the_very_parameters():
    model = nn.Sequential(
        nn.Linear(4, 4), trained(nn.LayerNorm(4), dtype=torch.bfloat16)
    ).bfloat16()
    model[1].bias.requires_grad_(False)
    model[1].eval()
    weight, bias = model[1].weight, model[1].bias
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    new = replace(model, nn.LayerNorm, layers.DyT)[0][1]
    assert new.weight is weight and new.bias is bias and not new.training
    assert new.weight.requires_grad and new.alpha.requires_grad and not new.bias.requires_grad
    assert {parameter.dtype for parameter in new.parameters()} == {torch.bfloat16}
    before = weight.detach().clone()
    model(draw(2, 4, dtype=torch.bfloat16)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(new.weight, before)


def test_a_frozen_layer_stays_frozen():
    model = nn.Sequential(
        nn.LayerNorm(4).requires_grad_(False), nn.LayerNorm(4, elementwise_affine=False)
    )
    replace(model, nn.LayerNorm, layers.DyT)
    assert [each.requires_grad for each in model[0].parameters()] == [False] * 3
    # nothing was frozen there
    assert [each.requires_grad for each in model[1].parameters()] == [True] * 2


def test_meta_tensors_are_carried():
    model = nn.Sequential(nn.LayerNorm(4, device="meta"))
    weight = model[0].weight
    replace(model, nn.LayerNorm, layers.DyT)
    assert model[0].weight is weight and model[0].alpha.is_meta


class Nest(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.LayerNorm(4)
        self.items = nn.ModuleList(
            [nn.LayerNorm(4), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))]
        )
        self.named = nn.ModuleDict({"a": nn.LayerNorm(4), "again": self.shared})
        self.alias = self.items[1]
        self.register_module("absent", None)
        self.double()

    def forward(self, x):
        for module in (self.shared, *self.items, *self.named.values(), self.alias):
            x = module(x)
        return x


def test_nested_shared_and_named_layers_are_all_replaced():
    model = Nest()
    keys = list(model.state_dict())
    _, report = replace(model, nn.LayerNorm, layers.DyT)
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())
    assert model.shared is model.named["again"] and model.alias is model.items[1]
    paths = [record.paths for record in report.replaced]
    assert paths == [["shared", "named.again"], ["items.0"], ["items.1.1"], ["named.a"]]
    own = ("alpha", "_extra_state")  # of DyT
    # names and their order
    assert [key for key in model.state_dict() if not key.endswith(own)] == keys
    x = draw(3, 4)
    want = x
    for step in ("tanh", "tanh", "linear", "tanh", "tanh", "tanh", "linear", "tanh"):
        want = torch.tanh(0.5 * want) if step == "tanh" else model.items[1][0](want)
    assert_close(model(x), want)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(x), model(x))


def test_the_root_itself_is_returned_new():
    old = trained(nn.LayerNorm(4))
    new, report = replace(old, nn.LayerNorm, layers.DyT)
    assert type(new) is layers.DyT and new.weight is old.weight
    assert report.replaced[0].paths == ["(the model)"]


def test_tied_weights_stay_tied():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4))
    model[1].weight = model[0].weight
    replace(model, nn.LayerNorm, layers.DyT)
    assert model[0] is not model[1] and model[0].weight is model[1].weight


def test_a_tuple_of_classes_and_what_is_left():
    class Special(nn.LayerNorm):
        pass

    model = nn.Sequential(
        nn.LayerNorm(4), nn.RMSNorm(4), Special(4), nn.GroupNorm(2, 4), nn.Linear(4, 4)
    )
    _, report = replace(model, (nn.LayerNorm, nn.RMSNorm), layers.DyT)
    kinds = [layers.DyT, layers.DyT, Special, nn.GroupNorm, nn.Linear]
    assert [type(module) for module in model] == kinds
    assert (
        report.left["2"].startswith("Special is a subclass")
        and report.left["3"] == "GroupNorm is not in old"
    )
    assert set(report.left) == {"2", "3"}
    first, second, *rest = str(report).splitlines()
    assert first == f"0: {nn.LayerNorm(4)} -> {model[0]}" and second.startswith("1: RMSNorm")
    assert rest == [f"left {path}: {reason}" for path, reason in report.left.items()]
