"""Lesson 03's sentences on other rates and other draws, which no cell shows."""

import pytest
import torch

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
        ("predict-05-answer", "exchanged ="),
        ("derive-variance-check", "places ="),
        ("derive-split-check", "of_centred ="),
        ("predict-04-answer", "for error"),
        ("halves-nets", "linear_trained ="),
        ("share-run", "TRAINED ="),
        ("blocks-run", "ends_alone ="),
        ("predict-02-answer", "at_its_rate["),
    )


def drawn(first_seed, matrices=21, width=64, variance=None):
    """The opening's large weights, of other seeds."""
    shapes = [(64, width)] + [(width, width)] * (matrices - 1) + [(width, 10)]
    deviation = (variance or 2 / width) ** 0.5
    start = []
    for number, shape in enumerate(shapes):
        start.append(deviation * draw(5, *shape, seed=first_seed + number))
    return start


def batches(seed, steps=100):
    return torch.randint(1000, (steps, 32), generator=torch.Generator().manual_seed(seed))


def median(counts):
    return torch.tensor(counts).double().quantile(0.5).item()


SMALL = 1 / (3 * 64)
OTHER_DRAWS = (1000, 2000, 4000, 5000)


def counts(lesson, start, norm, rate=0.3, network="relu_writes", **batches):
    """Right digits of a network that is trained with this norm."""
    trained = lesson["train_five"](lesson[network], start, norm, rate, **batches)
    return lesson["right"](lesson[network], trained, norm)


def test_writers_that_centre_mend_the_networks_of_exercise_4s_fold():
    """The ruined networks of exercise 4's fold, whose writers have 0.1 more, converted."""
    lesson = definitions()
    network, right = lesson["linear_writes"], lesson["right"]
    start = lesson["new_weights"](21, 2 / 64)
    trained = lesson["train_five"](
        network, start, lesson["layer_norm"], 0.2, lesson["BATCHES"][:60]
    )
    moved = [W + 0.1 * (i % 2 == 0) for i, W in enumerate(trained)]
    converted = [lesson["centred"](W) if i % 2 == 0 else W for i, W in enumerate(moved)]
    before = right(network, trained, lesson["layer_norm"])
    assert right(network, moved, lesson["layer_norm"]) == before
    assert max(right(network, moved, lesson["rms_layer"])) < 150
    assert right(network, converted, lesson["rms_layer"]) == before


SETTINGS = {"layer_norm": 0.3, "rms_layer": 0.3, "centred_shrunk": 1.0, "shrunk": 3.0}


@pytest.mark.slow
def test_at_its_own_rate_each_setting_learns_without_either_half_as_well():
    lesson = definitions()
    medians = []
    for name, rate in SETTINGS.items():
        ends = []
        for first_seed in OTHER_DRAWS:
            start = drawn(first_seed)
            ends += counts(lesson, start, lesson[name], rate, batches=batches(first_seed))
        medians.append(median(ends))
    assert min(medians) > 360
    assert max(medians) - min(medians) < 20


@pytest.mark.slow
def test_at_a_tenth_of_the_rate_rms_norm_is_far_behind_mostly_by_the_readers_sums():
    lesson = definitions()
    for first_seed in OTHER_DRAWS:
        start = drawn(first_seed)
        drawn_batches = batches(first_seed)

        def ends(name, start=start, drawn_batches=drawn_batches):
            rate = SETTINGS[name] / 10
            return counts(lesson, start, lesson[name], rate, batches=drawn_batches)

        found = {name: ends(name) for name in SETTINGS}
        cured = ends("rms_layer", lesson["centre_readers"](lesson["relu_writes"], start))
        both, rms = found.pop("layer_norm"), found.pop("rms_layer")
        for ln, behind, mended in zip(both, rms, cured, strict=True):
            assert ln - behind > 100
            assert mended - behind > 0.6 * (ln - behind)
        for others in found.values():
            assert all(other - behind > 60 for other, behind in zip(others, rms, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 1000])
def test_after_500_steps_at_the_low_rate_rms_norm_is_a_little_behind(first_seed):
    lesson = definitions()
    both, rms = (
        counts(lesson, drawn(first_seed), lesson[norm], 0.03, batches=batches(500, 500))
        for norm in ("layer_norm", "rms_layer")
    )
    assert all(ln - behind <= 25 for ln, behind in zip(both, rms, strict=True))


GRID = (0.0003, 0.003, 0.03, 0.1, 0.3, 1, 3)


@pytest.mark.slow
def test_the_rates_and_the_constants_are_the_best_or_two_digits_behind():
    """By the validation digits of starts that the lesson does not show."""
    lesson = definitions()
    data, network = lesson["data"], lesson["relu_writes"]
    start, drawn_batches = drawn(7000), batches(7000)

    def ends(norm, rate):
        trained = lesson["train_five"](network, start, norm, rate, drawn_batches)
        _, logits = network(trained, data.validation_x, norm)
        return median((logits.argmax(-1) == data.validation_y).sum(-1).tolist())

    for name in ("layer_norm", "rms_layer"):
        found = {rate: ends(lesson[name], rate) for rate in GRID}
        assert found[0.3] >= max(found.values()) - 2
    for chosen, centre in (((0.2, 1), lesson["centred"]), ((0.1, 3), lambda h: h)):
        found = {}
        for constant in (1, 0.5, 0.2, 0.1, 0.05):
            for rate in GRID:
                found[constant, rate] = ends(lambda h, c=constant, f=centre: c * f(h), rate)
        assert found[chosen] >= max(found.values()) - 2


@pytest.mark.slow
def test_no_block_is_needed():
    lesson = definitions()
    for norm in ("layer_norm", "rms_layer"):
        for first_seed in OTHER_DRAWS:
            weights = drawn(first_seed)
            ends = [weights[0], weights[-1]]
            assert min(counts(lesson, ends, lesson[norm], network="no_blocks")) > 365


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["centred", "whole"])
def test_the_constant_1_bears_tiny_rates_only(norm):
    lesson = definitions()
    function = lesson["centred"] if norm == "centred" else lambda h: h
    start = lesson["new_weights"](21, 2 / 64)
    for rate in (0.001, 0.01, 0.1, 0.3):
        assert max(counts(lesson, start, function, rate)) < 60


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 0.02])
def test_where_a_linear_layer_writes_rms_norm_does_as_well(rate):
    lesson = definitions()
    medians = []
    for name in ("layer_norm", "rms_layer"):
        ends = []
        for first_seed in OTHER_DRAWS:
            start, drawn_batches = drawn(first_seed), batches(first_seed, 60)
            ends += counts(
                lesson, start, lesson[name], rate, network="linear_writes", batches=drawn_batches
            )
        medians.append(median(ends))
    assert abs(medians[0] - medians[1]) < 8


def trained_with_layer_norm(lesson, start, rate=0.3, **batches):
    return lesson["train_five"](lesson["relu_writes"], start, lesson["layer_norm"], rate, **batches)


KINDS = {  # kind: the weights' first seed, matrices, width, rate
    "as in the lesson": (0, 21, 64, 0.3),
    "other weights": (1000, 21, 64, 0.3),
    "the rate 0.03": (0, 21, 64, 0.03),
    "half the width": (0, 21, 32, 0.3),
    "twice the width, ten blocks": (0, 11, 128, 0.3),
    "five blocks": (0, 6, 64, 0.3),
}
NOT_ALWAYS_HALF = {"other weights", "twice the width, ten blocks", "five blocks"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_exchange_costs_digits_in_each_start_and_it_is_the_mean(kind):
    first_seed, matrices, width, rate = KINDS[kind]
    lesson = definitions()
    network, right = lesson["relu_writes"], lesson["right"]
    start = drawn(first_seed, matrices, width)
    trained = trained_with_layer_norm(lesson, start, rate)
    left = {
        error: right(network, trained, norm) for error, norm in lesson["NORMS_BY_ERROR"].items()
    }
    kept = [after / before for before, after in zip(left["nothing"], left["both"], strict=True)]
    assert max(kept) < 0.85
    assert (max(kept) > 0.5) == (kind in NOT_ALWAYS_HALF)
    for divisor, mean in zip(left["divisor"], left["mean"], strict=True):
        assert divisor > mean + 50


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 1000])
def test_with_small_weights_the_rate_decides_what_the_exchange_costs(first_seed):
    lesson = definitions()
    network, right = lesson["relu_writes"], lesson["right"]
    lost = {}
    for rate in (0.3, 0.1):
        start = drawn(first_seed, variance=SMALL)
        trained = trained_with_layer_norm(lesson, start, rate)
        before = right(network, trained, lesson["layer_norm"])
        after = right(network, trained, lesson["rms_layer"])
        lost[rate] = [had - has for had, has in zip(before, after, strict=True)]
    assert min(lost[0.3]) < 20 < 60 < max(lost[0.3])
    assert min(lost[0.1]) > 60


@pytest.mark.slow
def test_the_readers_centred_are_the_wrong_divisor_alone():
    lesson = definitions()
    x = lesson["data"].test_x
    trained = trained_with_layer_norm(lesson, lesson["new_weights"](21, 2 / 64))
    first, *readers = trained
    torch.testing.assert_close(readers[8].mean(-2), lesson["new_weights"](21, 2 / 64)[9].mean(-2))
    centred = [first, *[reader - reader.mean(-2, keepdim=True) for reader in readers]]
    _, from_readers = lesson["relu_writes"](centred, x, lesson["rms_layer"])
    _, from_rows = lesson["relu_writes"](trained, x, lesson["wrong_divisor"])
    torch.testing.assert_close(from_readers, from_rows)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 1000])
def test_with_a_learned_gain_and_bias_the_exchange_costs_as_much(first_seed):
    lesson = definitions()
    start = drawn(first_seed)
    gains = [torch.ones(5, 1, 64) for _ in start[1:]]
    biases = [torch.zeros(5, 1, 64) for _ in start[1:]]

    def network(weights, x, norm):
        def affine_norm(h):
            return norm(h) * next(gain) + next(bias)

        gain = iter(weights[len(start) : 2 * len(start) - 1])
        bias = iter(weights[2 * len(start) - 1 :])
        return lesson["relu_writes"](weights[: len(start)], x, affine_norm)

    trained = lesson["train_five"](network, start + gains + biases, lesson["layer_norm"], 0.3)
    before = lesson["right"](network, trained, lesson["layer_norm"])
    after = lesson["right"](network, trained, lesson["rms_layer"])
    assert (trained[len(start)] - 1).abs().max() > 0.1  # the gains have learned
    assert min(before) > 350
    assert max(after) < 0.65 * min(before)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", OTHER_DRAWS)
def test_a_large_mean_costs_digits_where_no_relu_writes(first_seed):
    lesson = definitions()
    network, right = lesson["linear_writes"], lesson["right"]
    trained = lesson["train_five"](
        network, drawn(first_seed), lesson["layer_norm"], 0.2, batches(first_seed, 60)
    )

    def ends(number, norm):
        return right(network, trained, lesson["plus"](number, lesson[norm]))

    before = ends(0, "layer_norm")
    assert ends(3, "layer_norm") == before
    assert min(ends(0, "rms_layer")) > min(before) - 15
    assert median(ends(3, "rms_layer")) < 280
    assert median(ends(3, "wrong_divisor")) > median(before) - 30
