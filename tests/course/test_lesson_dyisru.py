"""What lesson 06 says of its nets and rows and does not print: other starts, nets and rows."""

import pytest
import torch
from torch import nn

from normcourse import training
from normlib import functional, layers, surgery
from tests.course.lesson_tables import each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

FITS = (
    "setup",
    ("failure-run", 'try_it("no norm"'),
    "ex1-stub",
    "ex1-check",
    "exact-check",
    "fan-fit",
    ("fan-run", "for name, sample in"),
)


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson fits to rows, and what it puts in the place of norms."""
    return run_cells(
        "06_dyisru.ipynb",
        *FITS,
        ("predict-07-answer", "for name, sample in"),
        ("predict-05-answer", "found ="),
        "ex5-stub",
        "ex5-check",
        ("told-once", "read = training.rows_read(deep_net"),
        ("predict-06-answer", "learned ="),
        ("rate-control", "try_told("),
    )


def told(lesson, kind: str, seed: int, **net: int) -> nn.Module:
    """A fresh net with a layer of this kind in each norm's place, told its rows once."""
    width = net.get("width", 64)
    made = fresh(layers.RMSNorm, seed, **net)
    read = training.rows_read(made, lesson["data"].train_x[:100])
    mean = sum(map(lesson["one_c"], read.values())) / len(read)

    def layer(norm):
        rows = read[norm]
        if kind == "line":
            line = lesson["Line"](1 / lesson["size"](rows))
            line.weight = nn.Parameter(line.weight.detach()[:1].repeat(width))
            return line
        if kind == "tanh":
            return layers.DyT(width, alpha_init=1 / lesson["size"](rows), scale="sqrt_d")
        c = mean if kind == "one c" else lesson["one_c"](rows)
        return layers.DyISRU(width, c_init=c)

    return surgery.replace(made, layers.RMSNorm, layer)[0]


def fresh(norm, seed: int, *, width: int = 64, depth: int = 15) -> nn.Module:
    return training.residual_mlp(norm, depth=depth, width=width, init="he", seed=seed)


def share(lesson, net, seed: int, *, steps: int = 40, lr: float = 0.1, by: str = "sgd") -> float:
    """The right test digits of a net that is trained as the lesson does, or otherwise."""
    training.train(net, lesson["data"], steps=steps, lr=lr, seed=seed, optimizer=by)
    return training.accuracy(net, lesson["data"].test_x, lesson["data"].test_y)


VARIATIONS = {
    "as on the page": (20, {}, {}),
    "half the width": (5, {"width": 32}, {}),
    "twice the width": (5, {"width": 128}, {}),
    "8 blocks": (5, {"depth": 8}, {}),
    "30 blocks": (5, {"depth": 30}, {}),
    "four times the steps": (5, {}, {"steps": 160}),
    "rate 0.03": (5, {}, {"lr": 0.03}),
}


@pytest.mark.slow
@pytest.mark.parametrize("variation", VARIATIONS)
def test_told_once_a_net_learns_with_dyisru_and_with_a_line(lesson, variation):
    starts, net, training_of = VARIATIONS[variation]
    for seed in range(starts):
        for kind in ("DyISRU", "one c", "line"):
            assert share(lesson, told(lesson, kind, seed, **net), seed, **training_of) > 0.5
        assert share(lesson, fresh(layers.RMSNorm, seed, **net), seed, **training_of) > 0.5
        for norm in (None, layers.DyISRU, lesson["tanh_for_rows_of_size_1"]):
            assert share(lesson, fresh(norm, seed, **net), seed, **training_of) < 0.5


@pytest.mark.slow
def test_told_once_the_tanh_learns_in_most_starts(lesson):
    learned = [share(lesson, told(lesson, "tanh", seed), seed) > 0.5 for seed in range(20)]
    assert 15 <= sum(learned) < 20


class Tanh(nn.Module):
    """Lesson 05's tanh; `learned` says what is learned of its slope."""

    def __init__(self, slope: float, learned: str) -> None:
        super().__init__()
        number = torch.tensor(slope)
        self.learned = learned
        self.number = nn.Parameter(number.log() if learned == "the logarithm" else number)
        self.number.requires_grad_(learned != "nothing")
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x):
        slope = self.number.exp() if self.learned == "the logarithm" else self.number
        return self.weight * 8 * torch.tanh(slope * x / 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_at_twice_the_rate_what_learns_a_logarithm_learns(lesson, seed):
    def bears(layer_for) -> bool:
        return share(lesson, lesson["told_once"](layer_for, seed), seed, lr=0.2) > 0.5

    def tanh_with(learned):
        return lambda rows: Tanh(1 / lesson["size"](rows), learned)

    assert bears(lesson["dyisru_for"])
    assert bears(lesson["log_line_for"])
    assert bears(tanh_with("the logarithm"))
    assert bears(tanh_with("nothing"))
    assert not bears(tanh_with("the slope"))
    assert not bears(lesson["tanh_for"])


@pytest.mark.slow
def test_at_a_high_rate_the_line_is_lost_and_c_64_learns_slowly(lesson):
    """More slowly than RMSNorm: with SGD at a thirtieth of the rate, and with Adam."""
    by_adam = {"lr": 0.003, "by": "adam"}
    slowly = {"lr": 0.003, "steps": 100}
    for seed in range(3):
        assert share(lesson, told(lesson, "line", seed), seed, lr=0.3) < 0.5
        of_norm = share(lesson, fresh(layers.RMSNorm, seed), seed, **by_adam)
        assert 0.5 < share(lesson, fresh(layers.DyISRU, seed), seed, **by_adam) < of_norm
        of_norm = share(lesson, fresh(layers.RMSNorm, seed), seed, steps=100)
        assert 0.5 < share(lesson, fresh(layers.DyISRU, seed), seed, **slowly) < of_norm


class StillRMSNorm(nn.Module):
    """RMSNorm's outputs; in the gradient the sum of the others' squares stands still."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        squares = x.square()
        others = squares.sum(-1, keepdim=True) - squares
        return self.weight * x.shape[-1] ** 0.5 * x / torch.sqrt(squares + others.detach())


class Gain(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x


@pytest.mark.slow
def test_a_wrong_gradient_costs_digits_where_the_true_layer_and_no_norm_lose_none(lesson):
    def digits(norm, lr):
        found = []
        for seed in range(40, 54):
            net = training.transformer(norm, depth=2, width=16, seed=seed)
            adam = {"optimizer": "adam", "warmup": 10, "batch_size": 32}
            training.train(net, lesson["data"], steps=80, lr=lr, seed=seed, **adam)
            found.append(400 * training.accuracy(net, lesson["data"].test_x, lesson["data"].test_y))
        return sum(found) / len(found)

    of_norm = digits(layers.RMSNorm, 1e-2)
    assert digits(StillRMSNorm, 3e-2) < of_norm - 9
    assert digits(layers.DyISRU, 1e-2) > of_norm - 9
    assert digits(Gain, 1e-2) > of_norm - 9


@pytest.mark.parametrize("times", each((10, 30, 100), quick=30))
@pytest.mark.parametrize(("width", "rows"), [(16, 500), (64, 160)])
def test_where_some_rows_have_outliers_a_bend_is_nearer_than_a_line(lesson, times, width, rows):
    def sample(rows, width, seed):
        return lesson["with_outliers"](rows, width, seed, times)

    for seed in range(5):
        arguments = (sample, width, rows, seed)
        of_line = lesson["error_of"](lesson["line"], *arguments)
        of_isru = lesson["error_of"](functional.isru, *arguments)
        for bend in (torch.tanh, lesson["clipped"]):
            assert lesson["error_of"](bend, *arguments) < 1.1 * of_isru
        assert of_isru < 0.8 * of_line


@pytest.mark.slow
@pytest.mark.parametrize(("width", "rows"), [(16, 500), (64, 160)])
def test_with_one_c_any_bend_is_as_near_and_a_line_is_where_rows_are_alike(lesson, width, rows):
    for seed in range(20):
        lines = {}
        for name, sample in lesson["samples"].items():
            errors = {
                other: lesson["error_of"](bend, sample, width, rows, seed)
                for other, bend in lesson["bends"].items()
            }
            of_isru = errors.pop("ISRU")
            lines[name] = errors.pop("line") / of_isru
            assert all(error < 1.1 * of_isru for error in errors.values())
        of_normal = lines.pop("normal rows")
        assert of_normal < 1.15
        assert min(lines.values()) > 1.5


@pytest.mark.slow
def test_with_16_numbers_a_row_the_neighbours_are_worse_than_nothing(lesson):
    for seed in range(20):
        assert lesson["on_neighbours"](functional.isru, 500, 16, seed) > 1


@pytest.mark.slow
def test_with_64_numbers_a_row_the_neighbours_are_not_always_worse_than_nothing(lesson):
    errors = [lesson["on_neighbours"](functional.isru, 160, 64, seed) for seed in range(20)]
    assert min(errors) < 1
