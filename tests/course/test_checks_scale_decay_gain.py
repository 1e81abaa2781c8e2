"""The checks of lesson 03b name the slips people make, and accept right answers of other styles."""

import copy
import math

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse.checks import scale_decay_gain as check
from normlib import layers
from tests.course.solutions import load, wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def solution(name):
    return load("03b_scale_decay_gain")[name]


def by_name(net, decay):
    norms = [p for name, p in net.named_parameters() if "norm" in name or "bias" in name]
    return groups(net, decay, norms)


def by_type(net, decay):
    norms = [
        p for part in net.modules() if isinstance(part, nn.LayerNorm) for p in part.parameters()
    ]
    return groups(net, decay, norms)


def only_biases(net, decay):
    return groups(net, decay, [p for name, p in net.named_parameters() if "bias" in name])


def groups(net, decay, free):
    ids = set(map(id, free))
    return [
        {"params": [p for p in net.parameters() if id(p) not in ids], "weight_decay": decay},
        {"params": list(free), "weight_decay": 0.0},
    ]


def by_axes(net, decay, least):
    return groups(net, decay, [p for p in net.parameters() if p.dim() < least])


def swapped(net, decay):
    first, second = solution("decay_groups")(net, decay)
    return [first | {"weight_decay": 0.0}, second | {"weight_decay": decay}]


def default_in_the_second(net, decay):
    first, second = solution("decay_groups")(net, decay)
    return [first, {"params": second["params"]}]


def walks_the_layers(net, decay):
    parameters = [p for part in net.modules() for p in part.parameters(recurse=False)]
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


def copies(net, decay):
    return solution("decay_groups")(copy.deepcopy(net), decay)


def loses_the_biases(net, decay):
    first, second = solution("decay_groups")(net, decay)
    kept = [p for name, p in net.named_parameters() if p.dim() < 2 and "bias" not in name]
    return [first, second | {"params": kept}]


def gains_of(net):
    return [part.weight.detach() for part in net.modules() if isinstance(part, layers.RMSNorm)]


def named(is_offset):
    return "offset" if is_offset else "plain"


def changes_the_net(net, x, y):
    answer = solution("which_convention")(net, x, y)
    with torch.no_grad():
        gains_of(net)[0].add_(1.0)
    return answer


test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.effective_rate: {
            "divides once": (lambda lr, w: lr / w.norm().item(), "the length counts twice"),
            "multiplies": (lambda lr, w: lr * w.square().sum().item(), "divide by the squared"),
            "multiplies once": (lambda lr, w: lr * w.norm().item(), "divide, and by the squared"),
            "a mean": (lambda lr, w: lr / w.square().mean().item(), "not their mean"),
            "an RMS": (lambda lr, w: lr / w.square().mean().sqrt().item(), "is not the length"),
            "sums first": (lambda lr, w: lr / w.sum().item() ** 2, "square first"),
            "sizes": (lambda lr, w: lr / w.abs().sum().item() ** 2, "sum their sizes"),
            "four times": (lambda lr, w: lr / w.norm().item() ** 4, "twice is enough"),
            "nothing": (lambda lr, w: lr, "does not feel lr itself"),
            "a row": (lambda lr, w: lr / w[0].square().sum().item(), "off by up to"),
        },
        check.equilibrium_length: {
            "no 2": (lambda lr, wd, a: (lr * a**2 / wd) ** 0.25, "the 2 is missing"),
            "2 above": (lambda lr, wd, a: (2 * lr * a**2 / wd) ** 0.25, "stands below"),
            "4": (lambda lr, wd, a: (lr * a**2 / (4 * wd)) ** 0.25, "4 is not the factor"),
            "no root": (lambda lr, wd, a: lr * a**2 / (2 * wd), "take the fourth root"),
            "one root": (lambda lr, wd, a: (lr * a**2 / (2 * wd)) ** 0.5, "root once more"),
            "third root": (lambda lr, wd, a: (lr * a**2 / (2 * wd)) ** (1 / 3), "slope / length"),
            "slope once": (lambda lr, wd, a: (lr * a / (2 * wd)) ** 0.25, "counts squared"),
            "lr squared": (lambda lr, wd, a: (lr**2 * a**2 / (2 * wd)) ** 0.25, "one lr is left"),
            "no lr": (lambda lr, wd, a: (a**2 / (2 * wd)) ** 0.25, "comes times lr"),
            "decay above": (lambda lr, wd, a: (lr * a**2 * wd / 2) ** 0.25, "it stands below"),
            "swapped": (lambda lr, wd, a: (wd * a**2 / (2 * lr)) ** 0.25, "changed places"),
        },
        check.decay_groups: {
            "by name": (by_name, "Not each norm has 'norm' in its name"),
            "by type": (by_type, "decays"),
            "biases alone": (only_biases, "of shape (3,) decays"),
            "three axes": (lambda net, wd: by_axes(net, wd, 3), "it has two axes or more"),
            "all": (lambda net, wd: by_axes(net, wd, 0), "everything decays"),
            "nothing": (lambda net, wd: by_axes(net, wd, 9), "nothing decays"),
            "swapped": (swapped, "changed places"),
            "default": (default_in_the_second, "its own default of 0.01"),
            "shared twice": (walks_the_layers, "is there twice"),
            "copies": (copies, "a copy?"),
            "lost": (loses_the_biases, "is in no group"),
            "no groups": (lambda net, wd: list(net.parameters()), "a list of dicts"),
            "no key": (lambda net, wd: [{"parameters": []}], "'params' and 'weight_decay'"),
        },
        check.which_convention: {
            "mean near 0": (
                lambda net, x, y: named(abs(torch.cat(gains_of(net)).mean()) < 0.5),
                "the mean of the gains does not tell",
            ),
            "mean below a half": (
                lambda net, x, y: named(torch.cat(gains_of(net)).mean() < 0.5),
                "not below one half only",
            ),
            "the first norm": (
                lambda net, x, y: named(abs(gains_of(net)[0].mean()) < 0.5),
                "a single norm does not tell",
            ),
            "the last norm": (
                lambda net, x, y: named(abs(gains_of(net)[-1].mean()) < 0.5),
                "the last norm does not tell",
            ),
            "the median": (
                lambda net, x, y: named(abs(torch.cat(gains_of(net)).median()) < 0.5),
                "a median does not tell",
            ),
            "a sign": (
                lambda net, x, y: named((torch.cat(gains_of(net)) < 0).any()),
                "negative numbers do not tell",
            ),
            "the larger loss": (
                lambda net, x, y: {"plain": "offset", "offset": "plain"}[
                    solution("which_convention")(net, x, y)
                ],
                "the smaller loss",
            ),
            "always plain": (lambda net, x, y: "plain", "always 'plain'"),
            "another word": (lambda net, x, y: "w + 1", "expected 'plain' or 'offset'"),
            "changes the net": (changes_the_net, "the net was changed"),
        },
    }
)


def rate_in_a_loop(lr, w):
    total = 0.0
    for number in w.flatten().tolist():
        total += number * number
    return lr / total


def length_by_bisection(lr, decay, slope):
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        growth = (lr * slope / middle) ** 2
        low, high = (middle, high) if growth > 2 * lr * decay * middle**2 else (low, middle)
    return middle


def groups_by_dimension(net, decay):
    chosen = {True: [], False: []}
    for parameter in net.parameters():
        chosen[len(parameter.shape) > 1].append(parameter)
    return (
        {"params": chosen[False], "weight_decay": 0},
        {"params": chosen[True], "weight_decay": decay},
    )


def one_group_each(net, decay):
    return [{"params": p, "weight_decay": decay * (p.dim() > 1)} for p in net.parameters()]


def in_place(net, x, y):
    """Reads both ways in the net itself, and puts everything back."""
    stored = copy.deepcopy(net.state_dict())
    losses = {}
    for name, number in (("plain", 0.0), ("offset", 1.0)):
        with torch.no_grad():
            for gain in gains_of(net):
                gain.add_(number)
            losses[name] = F.cross_entropy(net(x), y).item()
        net.load_state_dict(stored)
    return min(losses, key=losses.get)


OTHER_STYLES = [
    (check.effective_rate, rate_in_a_loop),
    (check.effective_rate, lambda lr, w: lr / w.norm() ** 2),
    (check.effective_rate, lambda lr, w: lr / numpy.square(w.numpy()).sum()),
    (check.equilibrium_length, length_by_bisection),
    (check.equilibrium_length, lambda lr, wd, a: math.sqrt(math.sqrt(lr / wd / 2) * a)),
    (check.decay_groups, groups_by_dimension),
    (check.decay_groups, one_group_each),
    (check.which_convention, in_place),
]


@pytest.mark.parametrize("check_, answer", OTHER_STYLES)
def test_a_right_answer_of_another_style_is_accepted(check_, answer):
    verdict = check_(answer)
    assert verdict.startswith("[ok]"), verdict


def test_the_checkpoints_of_the_diagnosis_are_one_function():
    """Each is the trained net, whatever its file holds; read the other way, it is another one."""
    x, y = check._pictures()
    want = check._trained(0)(x[:50]).detach()
    for net, convention in check._checkpoints():
        read = copy.deepcopy(net)
        with torch.no_grad():
            for gain in gains_of(read):
                gain.add_(1.0 if convention == "offset" else 0.0)
        if (torch.cat(gains_of(read)) > 0).all():
            torch.testing.assert_close(read(x[:50]).detach(), want, rtol=1e-8, atol=1e-10)
        right, wrong = (F.cross_entropy(n(x), y).item() for n in (read, other(net, convention)))
        assert wrong > 1.2 * right


def other(net, convention):
    net = copy.deepcopy(net)
    with torch.no_grad():
        for gain in gains_of(net):
            gain.add_(0.0 if convention == "offset" else 1.0)
    return net
