"""The map draws every lesson, and the table of the layers says what the layers do."""

import re
from pathlib import Path

import pytest
import torch

from normcourse import draw
from normcourse.lesson import Notebook
from normcourse.timing.traffic import count_traffic
from normlib import layers
from normlib.kernels import pointwise, rows
from tools import course_map

ROOT = Path(__file__).parents[1]
PAGE = course_map.PAGE.read_text("utf-8")
EQUATIONS = (course_map.REFERENCE / "equations.md").read_text("utf-8")
SAMPLES, FEATURES, POSITIONS, GROUPS = 4, 6, 5, 2


def table(heading):
    """The rows of the table under a heading, each a dictionary of its cells."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip().strip("|").split("|") for line in re.findall(r"^\|.*\|$", section, re.M)]
    head, _, *body = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(head, line, strict=True)) for line in body]


TABLE = table("The layers in one table")
LAYERS = pytest.mark.parametrize("row", TABLE, ids=lambda row: row["layer"])


def made(name):
    """The layer with next to no eps, and gains and biases that a test can see."""
    kind = getattr(layers, name)
    arguments = (GROUPS, FEATURES) if name == "GroupNorm" else (FEATURES,)
    options = {} if name in {"DyT", "DyISRU", "Derf"} else {"eps": 1e-14}
    layer = kind(*arguments, **options, dtype=torch.float64)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.add_(0.1 * draw(*parameter.shape, seed=seed).abs())
    return layer


def apply(layer, x):
    """The layer on (samples, features, positions): some want the features last, one an image."""
    if isinstance(layer, (layers.BatchNorm2d, layers.InstanceNorm2d)):
        return layer(x[..., None])[..., 0]
    if isinstance(layer, layers.GroupNorm):
        return layer(x)
    return layer(x.transpose(1, 2)).transpose(1, 2)


def sizes(tensors):
    """How many numbers, in multiples of D and the rest: '2D + 1'."""
    tensors = list(tensors)
    wide = sum(tensor.numel() // FEATURES for tensor in tensors if tensor.numel() >= FEATURES)
    single = sum(tensor.numel() for tensor in tensors if tensor.numel() < FEATURES)
    parts = [f"{wide if wide > 1 else ''}D"] * (wide > 0) + [str(single)] * (single > 0)
    return " + ".join(parts) or "0"


def test_the_map_draws_every_lesson():
    names = {path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb")}
    drawn = {f"{n}{letter}_{name}" for n, letter, _, name in course_map.lessons(PAGE)}
    assert drawn == names


@LAYERS
def test_statistics_over(row):
    """Which inputs move an output: those that share a mean or a size with it, and itself."""
    layer = made(row["layer"])
    x = draw(SAMPLES, FEATURES, POSITIONS, seed=9).requires_grad_()
    apply(layer, x)[0, 0, 0].backward()
    moves = x.grad != 0
    want = {
        "samples and positions of a feature": moves.new_zeros(x.shape),
        "positions and features of a group, one sample": moves.new_zeros(x.shape),
        "positions of a feature, one sample": moves.new_zeros(x.shape),
        "features of one position": moves.new_zeros(x.shape),
        "nothing": moves.new_zeros(x.shape),
    }
    want["samples and positions of a feature"][:, 0, :] = True
    want["positions and features of a group, one sample"][0, : FEATURES // GROUPS, :] = True
    want["positions of a feature, one sample"][0, 0, :] = True
    want["features of one position"][0, :, 0] = True
    want["nothing"][0, 0, 0] = True
    assert torch.equal(moves, want[row["statistics over"]])


@LAYERS
def test_train_and_eval(row):
    layer = made(row["layer"])
    x = 3 + 2 * draw(SAMPLES, FEATURES, POSITIONS)
    same = torch.equal(apply(layer.train(), x), apply(layer.eval(), x))
    assert row["train and eval"] == ("equal" if same else "differ")


@LAYERS
def test_stored_and_learned(row):
    layer = made(row["layer"])
    assert row["stored"] == sizes(layer.buffers())
    assert row["learned numbers"] == sizes(layer.parameters())


@LAYERS
def test_same_output(row):
    layer = made(row["layer"])
    x = draw(SAMPLES, FEATURES, POSITIONS)
    of_samples = 1 + draw(SAMPLES, 1, 1, seed=1).abs()
    of_features = 1 + draw(1, FEATURES, 1, seed=2).abs()
    changed = {
        "same output: sample × a": x * of_samples,
        "sample + c": x + of_samples,
        "feature × a": x * of_features,
        "feature + c": x + of_features,
    }
    y = apply(layer, x)
    for column, other in changed.items():
        same = torch.allclose(apply(layer, other), y, rtol=1e-9, atol=1e-9)
        assert row[column] == ("yes" if same else "no"), column


def moved(name):
    """Large tensors that the kernel reads and writes, forward and backward."""
    x = draw(64, 512).float()
    dy = draw(64, 512, seed=1).float()
    weight = torch.ones(512)
    if name in {"LayerNorm", "RMSNorm"}:
        centre = name == "LayerNorm"
        bias = torch.zeros(512) if centre else None
        with count_traffic() as forward:
            y, mean, rstd = rows.norm_forward(x, weight, bias, 1e-5, centre=centre)
        with count_traffic() as backward:
            dx, *_ = rows.norm_backward(dy, x, weight, mean, rstd, bias=centre)
    else:
        kind = {"DyT": "tanh", "DyISRU": "isru"}[name]
        parameter = torch.tensor([0.5])
        with count_traffic() as forward:
            y = pointwise.curve_forward(x, parameter, weight, weight, 1.0, kind=kind)
        with count_traffic() as backward:
            dx, *_ = pointwise.curve_backward(dy, x, parameter, weight, 1.0, kind=kind, bias=True)
    counts = [large(forward, x, y), large(backward, x, dy, dx)]
    return " + ".join(f"{count:g}" for count in counts)


def large(traffic, *tensors):
    """Bytes that went to and from these tensors of equal size, in units of one of them."""
    return sum(sum(traffic.of(tensor)) for tensor in tensors) / (64 * 512 * 4)


@LAYERS
def test_tensors_moved(row):
    if row["tensors moved"] == "no kernel":
        assert row["layer"] not in {"LayerNorm", "RMSNorm", "DyT", "DyISRU"}
    else:
        assert row["tensors moved"] == moved(row["layer"])


@LAYERS
def test_the_gradient_is_an_equation_of_this_layer(row):
    tag = re.fullmatch(r"\[(EQ-[A-Z-]+)\]\(equations\.md\)", row["input gradient"])[1]
    assert f"### {tag} — " in EQUATIONS


@LAYERS
def test_who_uses_it_is_named_in_a_lesson(row):
    text = "".join(path.read_text("utf-8") for path in (ROOT / "notebooks").glob("0[23]*.ipynb"))
    for user in filter(None, row["who uses it"].split(", ")):
        assert user in text, user


@pytest.mark.parametrize("row", table("Where each idea came from"), ids=lambda row: row["idea"])
def test_the_timeline_leads_to_a_lesson_that_names_the_work(row):
    (path,) = (ROOT / "notebooks").glob(f"{row['lesson']}_*.ipynb")
    text = "".join(cell.source for cell in Notebook(path).cells)
    for author in re.findall(r"([A-Z][\w-]+)(?: (?:&|et al\.|report))", row["source"]):
        assert author in text, f"lesson {row['lesson']} does not name {author}"


def test_the_timeline_is_in_order_of_years():
    years = [int(row["year"]) for row in table("Where each idea came from")]
    assert years == sorted(years)
    assert len(years) >= 10
