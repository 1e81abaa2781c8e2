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


def loses_what_has_no_axis(net, decay):
    first, second = solution("decay_groups")(net, decay)
    return [first, second | {"params": [p for p in net.parameters() if p.dim() == 1]}]


def gains_of(net):
    return [part.weight.detach() for part in net.modules() if isinstance(part, layers.RMSNorm)]


def named(is_offset):
    return "offset" if is_offset else "plain"


def scores(net, number, x):
    """What the net says of the pictures, if this is added to each gain."""
    net = copy.deepcopy(net)
    with torch.no_grad():
        for gain in gains_of(net):
            gain.add_(number)
        return net(x)


def by_loss(margin=1.25, count=None):
    """The smaller loss over the first `count` pictures, if the larger is so many times as large."""

    def answer(net, x, y):
        x, y = x[:count], y[:count]
        as_gains, as_offsets = (
            F.cross_entropy(scores(net, number, x), y).item() for number in (0.0, 1.0)
        )
        if max(as_gains, as_offsets) < margin * min(as_gains, as_offsets):
            return "unclear"
        return named(as_offsets < as_gains)

    return answer


def by_digits(least=0.03, count=None):
    """The reading that names more of the first `count` pictures, by a share of `least`."""

    def answer(net, x, y):
        x, y = x[:count], y[:count]
        as_gains, as_offsets = (
            (scores(net, number, x).argmax(1) == y).double().mean().item() for number in (0.0, 1.0)
        )
        if abs(as_gains - as_offsets) < least:
            return "unclear"
        return named(as_offsets > as_gains)

    return answer


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
            "the number, too": (
                lambda lr, w: lr / w.square().sum().item() / w.numel(),
                "how many weights there are does not count",
            ),
            "spectral": (lambda lr, w: lr / torch.linalg.norm(w, 2).item() ** 2, "spectral norm"),
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
            "exact": (
                lambda lr, wd, a: ((lr * a) ** 2 / (1 - (1 - lr * wd) ** 2)) ** 0.25,
                "the exact balance",
            ),
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
            "a number lost": (loses_what_has_no_axis, "1.gain is in no group"),
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
                lambda net, x, y: named(by_loss()(net, x, y) == "plain"),
                "the smaller loss",
            ),
            "a smaller loss, by any bit": (by_loss(margin=1.0), "ask for a clear difference"),
            "a loss smaller by 5 %": (by_loss(margin=1.05), "ask for a clear difference"),
            "more digits, by any number": (by_digits(least=0.0), "ask for a clear difference"),
            "ten pictures": (by_loss(count=10), "read them all"),
            "fifty pictures, by digits": (by_digits(least=0.0, count=50), "read them all"),
            "half the loss": (by_loss(margin=2.0), "too cautious"),
            "always unclear": (lambda net, x, y: "unclear", "too cautious"),
            "always plain": (lambda net, x, y: "plain", "always 'plain'"),
            "another word": (lambda net, x, y: "w + 1", "expected 'plain', 'offset' or 'unclear'"),
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
    near = max(losses.values()) - min(losses.values()) < 0.1
    return "unclear" if near else min(losses, key=losses.get)


OTHER_STYLES = [
    (check.effective_rate, rate_in_a_loop),
    (check.effective_rate, lambda lr, w: lr / w.norm() ** 2),
    (check.effective_rate, lambda lr, w: lr / numpy.square(w.numpy()).sum()),
    (check.equilibrium_length, length_by_bisection),
    (check.equilibrium_length, lambda lr, wd, a: math.sqrt(math.sqrt(lr / wd / 2) * a)),
    (check.decay_groups, groups_by_dimension),
    (check.decay_groups, one_group_each),
    (check.which_convention, in_place),
    (check.which_convention, by_loss(margin=1.1)),
    (check.which_convention, by_loss(margin=1.6)),
    (check.which_convention, by_digits()),
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
        numbers = (1.0, 0.0) if convention == "offset" else (0.0, 1.0)
        as_stored, misread = (scores(net, number, x) for number in numbers)
        if (torch.cat(gains_of(net)) + numbers[0] > 0).all():
            torch.testing.assert_close(as_stored[:50], want, rtol=1e-8, atol=1e-10)
        right, wrong = (F.cross_entropy(said, y).item() for said in (as_stored, misread))
        assert wrong > 1.6 * right, check.CAUTIOUS


def test_the_net_of_which_nothing_is_clear_is_as_the_slip_says():
    net, (x, y) = check._hardly_trained(), check._seen()
    as_gains, as_offsets = (scores(net, number, x) for number in (0.0, 1.0))
    losses = [F.cross_entropy(said, y).item() for said in (as_gains, as_offsets)]
    digits = [(said.argmax(1) == y).sum().item() for said in (as_gains, as_offsets)]
    assert losses[0] / losses[1] == pytest.approx(1.09, abs=0.01), check.BY_A_LITTLE
    assert digits[0] - digits[1] == pytest.approx(12, abs=3) and len(y) == 1000
