"""What lesson 06 says and does not print: one constant in other nets, an outlier's neighbours."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from normcourse import training
from normlib import layers, surgery
from tests.course.lesson_tables import NOTEBOOKS, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

NETS = [(16, 1e-2), (32, 1e-3), (32, 3e-3), (32, 1e-2), (32, 3e-2), (64, 1e-2)]  # width, rate


LAYERS = (
    "setup",
    "ex1-stub",
    "ex1-check",
    "exact-check",
    ("use-train", "trained = "),
    "use-layer",
)


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson puts in the place of norms."""
    return run_cells("06_dyisru.ipynb", *LAYERS, ("use-run", "of_norm ="))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "rate"), NETS)
def test_with_one_constant_a_net_keeps_nine_of_ten_digits(lesson, width, rate):
    data = training.digits()
    for seed in range(5):
        rms_norm = partial(layers.RMSNorm, eps=1e-5)
        net = training.transformer(rms_norm, depth=2, width=width, seed=seed)
        adam = {"optimizer": "adam", "lr": rate, "warmup": 10, "batch_size": 32}
        training.train(net, data, steps=80, seed=seed, **adam)
        of_norm = lesson["right"](net)
        kept = {
            name: lesson["right_with"](net, new) / of_norm
            for name, new in lesson["in_their_place"].items()
        }
        assert kept["told each c"] == 1
        assert kept["one c"] >= 0.9
        assert kept["the line"] >= 0.85


def test_the_record_of_still_constants_trains_the_layer_that_the_lesson_shows():
    names = run_cells("06_dyisru.ipynb", *LAYERS, "still-layer")
    record = training.load_record(NOTEBOOKS / "records/still_narrow.json")
    run = next(run for run in record.runs if (run.norm, run.phase) == ("rms_norm_still", "final"))
    net = names["trained_net"](
        run.seed,
        lambda width: names["with_still_constants"](names["rms_norm"](width)),
        width=16,
        lr=run.lr,
    )
    assert abs(names["right"](net) - run.test_right) <= 4  # another CPU may round otherwise


@pytest.mark.slow
def test_still_constants_miss_a_fifth_to_a_half_of_the_gradient_at_the_width_16():
    names = run_cells("06_dyisru.ipynb", *LAYERS, "still-layer")
    data = names["data"]

    def gradient(net):
        loss = F.cross_entropy(net(data.train_x[:100]), data.train_y[:100])
        parts = torch.autograd.grad(loss, list(net.parameters()))
        return torch.cat([part.flatten() for part in parts])

    for seed in range(10):
        net = names["trained_net"](seed, width=16)
        whole = gradient(net)
        surgery.replace(net, layers.RMSNorm, names["with_still_constants"])
        missing = (gradient(net) - whole).norm() / whole.norm()
        assert 0.2 < missing < 0.5


@pytest.fixture(scope="module")
def samples() -> dict:
    """What the lesson fits to rows with outliers."""
    parts = ("setup", "ex1-stub", "ex1-check", "exact-check", "fan-fit", "fan-run")
    return run_cells("06_dyisru.ipynb", *parts, ("predict-05-answer", "for width"))


@pytest.mark.parametrize("times", each((10, 30, 100), quick=30))
@pytest.mark.parametrize(("width", "rows"), [(16, 500), (64, 160)])
def test_at_an_outliers_neighbours_the_curve_is_farther_off_than_a_line(
    samples, times, width, rows
):
    farther = []
    for seed in range(20):
        old = samples["with_outliers"](rows, width, seed, times)
        new = samples["with_outliers"](rows, width, seed + 90, times)
        outliers = samples["places_of_outliers"](rows, width, seed + 90)
        wanted = samples["rms"](new)
        curve = samples["scaled_isru"](new, *samples["fitted"](old))
        line = samples["best_scale"](old, samples["rms"](old)) * new
        of_curve = samples["errors_by_kind"](curve, wanted, outliers)
        of_line = samples["errors_by_kind"](line, wanted, outliers)
        farther.append(of_curve["neighbours"] > of_line["neighbours"])
        assert of_curve["outliers"] < of_line["outliers"]
        assert of_curve["rows without one"] < of_line["rows without one"]
    assert sum(farther) >= 19
