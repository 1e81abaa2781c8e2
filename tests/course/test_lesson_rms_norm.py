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
        ("predict-02-answer", "relu_counts["),
        ("blocks-run", "ends_alone ="),
        "offset-code",
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


def readers_centred(weights):
    """Of a network in which a ReLU writes."""
    first, *readers = weights
    return [first, *[reader - reader.mean(-2, keepdim=True) for reader in readers]]


def median(counts):
    return torch.tensor(counts).double().quantile(0.5).item()


SMALL = 1 / (3 * 64)
OTHER_DRAWS = (1000, 2000, 4000, 5000)


def counts(lesson, start, norm, rate=0.3, network="relu_writes", **batches):
    """Right digits of a network that is trained with this norm."""
    trained = lesson["train_five"](lesson[network], start, norm, rate, **batches)
    return lesson["right"](lesson[network], trained, norm)


def test_writers_that_centre_mend_the_networks_of_exercise_5s_fold():
    """The converted networks of exercise 5's fold, whose writers have 0.1 more."""
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


@pytest.mark.slow
def test_at_a_tenth_of_the_rate_rms_norm_is_far_behind_mostly_by_the_readers_sums():
    lesson = definitions()
    for first_seed in OTHER_DRAWS:
        start = drawn(first_seed)
        drawn_batches = batches(first_seed)
        of_layer_norm, of_rms_norm, of_centred_readers = (
            counts(lesson, weights, norm, 0.03, batches=drawn_batches)
            for norm, weights in (
                (lesson["layer_norm"], start),
                (lesson["rms_layer"], start),
                (lesson["rms_layer"], readers_centred(start)),
            )
        )
        for ln, rms, cured in zip(of_layer_norm, of_rms_norm, of_centred_readers, strict=True):
            assert ln - rms > 100
            assert cured - rms > 0.6 * (ln - rms)


KINDS_OF_HALVES = {  # matrices, width, rate of LayerNorm, of 0.2 · centred row, of RMSNorm
    "half the width": (21, 32, 0.5, 0.5, 0.3),
    "twice the width": (21, 128, 0.1, 0.5, 0.3),
    "ten blocks": (11, 64, 0.3, 0.5, 0.3),
    "forty blocks": (41, 64, 0.1, 0.3, 0.3),
}  # the best of 0.03, 0.1, 0.3 and 0.5, by the validation digits of three other starts


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_HALVES)
def test_a_constant_with_centring_does_as_well_as_layer_norm(kind):
    matrices, width, *rates = KINDS_OF_HALVES[kind]
    lesson = definitions()
    start = drawn(0, matrices, width)
    norms = ("layer_norm", "centred_shrunk", "rms_layer")
    both, constant, rms = (
        counts(lesson, start, lesson[norm], rate) for norm, rate in zip(norms, rates, strict=True)
    )
    assert median(constant) > median(both) - 10
    assert median(rms) < median(constant)
    assert min(constant) > 355


@pytest.mark.slow
def test_a_constant_with_centring_in_other_draws_and_without_it():
    lesson = definitions()
    found = {name: [] for name in ("layer_norm", "centred_shrunk", "rms_layer", "shrunk")}
    for first_seed in OTHER_DRAWS:
        for name, ends in found.items():
            rate = 0.2 if name == "shrunk" else 0.3
            ends += counts(
                lesson, drawn(first_seed), lesson[name], rate, batches=batches(first_seed)
            )
    assert abs(median(found["centred_shrunk"]) - median(found["layer_norm"])) < 5
    assert median(found["rms_layer"]) < median(found["layer_norm"]) - 8
    assert median(found["shrunk"]) < median(found["centred_shrunk"]) - 12
    pairs = zip(found["centred_shrunk"], found["rms_layer"], strict=True)
    assert sum(constant > rms for constant, rms in pairs) >= 16


@pytest.mark.slow
def test_after_four_times_the_steps_the_three_end_alike():
    lesson = definitions()
    ends = []
    for norm in ("layer_norm", "centred_shrunk", "rms_layer"):
        start = lesson["new_weights"](21, 2 / 64)
        ends += counts(lesson, start, lesson[norm], batches=batches(400, 400))
    assert min(ends) > 375
    assert max(ends) < 397


@pytest.mark.slow
def test_no_centring_is_needed_by_a_far_smaller_constant_nor_without_blocks():
    lesson = definitions()
    start = lesson["new_weights"](21, 2 / 64)
    assert min(counts(lesson, start, lambda h: 0.1 * h, 2.0)) > 360
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
def test_where_a_linear_layer_writes_the_four_settings_end_alike():
    lesson = definitions()
    medians = []
    for name in ("layer_norm", "rms_layer", "centred_shrunk", "shrunk"):
        ends = []
        rate = 0.5 if "shrunk" in name else 0.2
        for first_seed in OTHER_DRAWS:
            start, drawn_batches = drawn(first_seed), batches(first_seed, 60)
            ends += counts(
                lesson, start, lesson[name], rate, network="linear_writes", batches=drawn_batches
            )
        medians.append(median(ends))
    assert max(medians) - min(medians) < 8


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


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.03, 0.1, 0.3, 0.5])
def test_offsets_in_writers_and_readers_ruin_rms_norm_and_neither_alone_does(rate):
    lesson = definitions()
    for first_seed in OTHER_DRAWS:
        drawn_batches = batches(first_seed, 60)

        def ends(writers, readers, seed=first_seed, drawn_batches=drawn_batches):
            start = drawn(seed)
            for number, matrix in enumerate(start):
                matrix += writers if number % 2 == 0 else readers
            return counts(
                lesson,
                start,
                lesson["rms_layer"],
                rate,
                network="linear_writes",
                batches=drawn_batches,
            )

        without = median(ends(0, 0))
        assert max(ends(0.05, 0.05)) < 120
        assert median(ends(0, 0.05)) > without - 10
        slowed = median(ends(0.05, 0))
        assert slowed > 100
        if rate <= 0.1:
            assert slowed < without - 40
        else:
            assert slowed > without - 60
