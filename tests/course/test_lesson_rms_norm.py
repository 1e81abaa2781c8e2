"""Lesson 03's sentences on other rates and other draws, which no cell shows."""

import pytest

from normcourse import draw
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def definitions() -> dict:
    """The lesson's own functions: networks, training, norms; nothing is trained."""
    return run_cells(
        "03_rms_norm.ipynb",
        "setup",
        "failure-net",
        "failure-train",
        ("failure-run", "large_weights ="),
        "halves-norm",
        ("head-run", "one_norm ="),
        ("predict-04-answer", "after_training ="),
        ("derive-variance-check", "means ="),
        ("halves-nets", "CASES ="),
        ("predict-03-answer", "OFFSETS ="),
    )


@pytest.mark.parametrize("rate", [0.003, 0.3])
def test_blocks_that_do_nothing_do_not_learn_with_a_norm_at_the_head(rate):
    lesson = definitions()
    network, norm = lesson["norm_at_the_head"], lesson["neither"]
    start = lesson["new_weights"](21, 2 / 64)
    trained = lesson["train_five"](network, start, norm, rate)
    assert max(lesson["right"](network, trained, norm)) < 200


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.05, -0.05])
def test_the_mean_feeds_itself_where_the_signs_of_the_offsets_agree(size):
    lesson = definitions()
    norm = lesson["exchanged"]
    share, right = lesson["train_with_offset"](norm, size, size)
    damped_share, damped_right = lesson["train_with_offset"](norm, size, -size)
    assert max(right) < 120
    assert min(damped_right) > 350
    assert damped_share < 0.7 < 0.95 < share


@pytest.mark.slow
def test_at_the_rate_1_the_wrong_divisor_helps_and_the_exchange_costs_less():
    lesson = definitions()
    network, right = lesson["relu_writes"], lesson["right"]
    trained = {}
    for error in ("nothing", "divisor"):
        norm = lesson["ERRORS"][error]
        weights = lesson["train_five"](network, lesson["new_weights"](21, 2 / 64), norm, 1.0)
        trained[error] = weights
    layer_norm, exchanged = lesson["layer_norm"], lesson["exchanged"]
    assert min(right(network, trained["nothing"], layer_norm)) < 300
    assert min(right(network, trained["divisor"], lesson["wrong_divisor"])) > 340
    assert min(right(network, trained["nothing"], exchanged)) > 100


@pytest.mark.slow
def test_with_a_third_of_the_rate_each_start_with_rms_norm_is_further_behind():
    lesson = definitions()
    network, start = lesson["relu_writes"], lesson["new_weights"](21, 2 / 64)
    counts = []
    for norm in (lesson["layer_norm"], lesson["exchanged"]):
        trained = lesson["train_five"](network, start, norm, 0.1)
        counts.append(lesson["right"](network, trained, norm))
    assert min(ln - rms for ln, rms in zip(*counts, strict=True)) > 30
    assert min(counts[1]) > 280  # and it learns


@pytest.mark.slow
def test_with_a_tenth_of_the_rate_the_wrong_divisor_costs_each_start_digits():
    lesson = definitions()
    network, start = lesson["relu_writes"], lesson["new_weights"](21, 2 / 64)
    layer_norm, wrong_divisor = lesson["layer_norm"], lesson["wrong_divisor"]
    trained = lesson["train_five"](network, start, layer_norm, 0.03)
    nothing = lesson["right"](network, trained, layer_norm)
    from_the_start = lesson["train_five"](network, start, wrong_divisor, 0.03)
    for weights in (trained, from_the_start):
        divisor = lesson["right"](network, weights, wrong_divisor)
        assert all(wrong < right for wrong, right in zip(divisor, nothing, strict=True))
        assert min(divisor) > 300
    for error in ("mean", "both"):
        assert max(lesson["right"](network, trained, lesson["ERRORS"][error])) < 100


@pytest.mark.slow
def test_at_twice_the_width_the_exchange_costs_digits_but_not_always_half():
    lesson = definitions()
    network = lesson["relu_writes"]
    start = lesson["new_weights"](11, 2 / 128, width=128)
    trained = lesson["train_five"](network, start, lesson["layer_norm"], 0.3)
    kept = lesson["right"](network, trained, lesson["layer_norm"])
    lost = lesson["right"](network, trained, lesson["exchanged"])
    assert min(kept) > 350
    assert all(after < before - 50 for before, after in zip(kept, lost, strict=True))
    assert max(lost) > 200


@pytest.mark.slow
def test_layer_norm_is_ahead_of_rms_norm_in_most_starts_of_other_draws():
    lesson = definitions()
    network = lesson["relu_writes"]
    shapes = [(64, 64)] * 21 + [(64, 10)]
    leads = []
    for first_seed in (100, 200, 300, 400, 500):
        start = []
        for number, shape in enumerate(shapes):
            start.append((2 / 64) ** 0.5 * draw(5, *shape, seed=first_seed + number))
        counts = []
        for norm in (lesson["layer_norm"], lesson["exchanged"]):
            trained = lesson["train_five"](network, start, norm, 0.3)
            counts.append(lesson["right"](network, trained, norm))
        leads += [ln - rms for ln, rms in zip(*counts, strict=True)]
    assert sum(lead > 0 for lead in leads) >= 20
    assert min(leads) < 0  # not in all
    assert max(leads) < 30
