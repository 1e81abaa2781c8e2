"""Lesson 03's sentences on other rates and other draws, which no cell shows."""

import pytest
import torch

from normcourse import draw, training
from normcourse.training.records import Cell
from tests.course.lesson_tables import NOTEBOOKS, run_cells
from tools.grids import GRIDS

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def definitions() -> dict:
    """The lesson's own functions: networks, training, norms, records; nothing is trained."""
    return run_cells(
        "03_rms_norm.ipynb",
        "setup",
        "failure-net",
        "failure-train",
        ("failure-run", "large_weights ="),
        ("derive-variance-check", "means ="),
        ("derive-split-check", "of_centred ="),
        "halves-nets",
        "ablation-record",
        ("share-run", "linear_trained ="),
        ("predict-04-answer", "for error"),
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


SMALL = 1 / (3 * 64)


VARIED = ("narrow", "wide", "long")
RECORDS = ["relu_small", "relu_large", "linear_small", "linear_large"]
RECORDS += [f"{case}_{varied}" for case in RECORDS if case != "linear_small" for varied in VARIED]


def counts(lesson, start, norm, rate=0.3, **batches):
    """Right digits of the opening's network, trained with this norm."""
    network = lesson["relu_writes"]
    trained = lesson["train_five"](network, start, norm, rate, **batches)
    return lesson["right"](network, trained, norm)


@pytest.mark.slow
def test_at_a_tenth_of_the_rate_rms_norm_is_far_behind_from_other_weights_too():
    lesson = definitions()
    for first_seed in (1000, 2000, 4000):
        start = drawn(first_seed)
        of_layer_norm = counts(lesson, start, lesson["layer_norm"], 0.03)
        of_rms_norm = counts(lesson, start, lesson["exchanged"], 0.03)
        leads = [ln - rms for ln, rms in zip(of_layer_norm, of_rms_norm, strict=True)]
        assert min(leads) > 100


@pytest.mark.slow
def test_layer_norm_is_ahead_of_rms_norm_in_most_starts_of_other_draws():
    """Draws of the weights and of the batches."""
    lesson = definitions()
    leads = []
    for first_seed in (1000, 2000, 4000, 5000, 7000):
        generator = torch.Generator().manual_seed(first_seed)
        batches = torch.randint(1000, (100, 32), generator=generator)
        norms = (lesson["layer_norm"], lesson["exchanged"])
        both = [counts(lesson, drawn(first_seed), norm, batches=batches) for norm in norms]
        leads += [ln - rms for ln, rms in zip(*both, strict=True)]
    assert sum(lead > 0 for lead in leads) >= 20
    assert min(leads) < 0  # not in all
    assert 40 < max(leads) < 60


BEST_OF_FOUR = {  # variance, at 40 blocks: LayerNorm's and RMSNorm's rate, of 0.1, 0.2, 0.3, 0.5
    None: (0.2, 0.3),
    SMALL: (0.1, 0.2),
}


@pytest.mark.slow
@pytest.mark.parametrize("variance", [None, SMALL], ids=["large", "small"])
def test_layer_norm_is_ahead_by_little_at_4_blocks_and_by_more_at_40(variance):
    lesson = definitions()
    norms = (lesson["layer_norm"], lesson["exchanged"])
    leads, worst = {}, {}
    for blocks, rates in ((4, (0.3, 0.3)), (40, BEST_OF_FOUR[variance])):
        start = drawn(0, blocks + 1, variance=variance)
        both = [counts(lesson, start, norm, rate) for norm, rate in zip(norms, rates, strict=True)]
        leads[blocks] = [ln - rms for ln, rms in zip(*both, strict=True)]
        worst[blocks] = min(both[1])
    assert worst[4] >= 320
    assert (worst[40] >= 320) == (variance == SMALL)  # not enough with large weights
    assert max(leads[4]) < 15
    assert min(leads[40]) > 8
    assert sum(leads[40]) > 2 * sum(leads[4])


def test_rms_norm_is_enough_and_centring_large_weights_stays_behind(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    recorded = definitions()["recorded"]
    below = 0
    for record in RECORDS:
        below += (recorded(record, "only re-scaled") < 320).sum()
        if "large" in record:
            lead = recorded(record, "both") - recorded(record, "only re-centred")
            assert lead.min() > 30
    assert below == 1


@pytest.mark.slow
def test_centring_small_weights_for_four_times_the_steps_wants_the_rate_003():
    """At 0.1, which two other starts chose, four of five starts diverge."""
    lesson = definitions()
    grid = GRIDS["halves_relu_small_long"]
    for seed in grid.seeds:
        run = training.trial(grid, Cell("centring", "final", None, 0.03, seed), lesson["data"])
        assert not run.diverged
        assert run.test_right >= 320


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
        after = right(network, trained, lesson["exchanged"])
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
    _, from_readers = lesson["relu_writes"](centred, x, lesson["exchanged"])
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
    after = lesson["right"](network, trained, lesson["exchanged"])
    assert (trained[len(start)] - 1).abs().max() > 0.1  # the gains have learned
    assert min(before) > 350
    assert max(after) < 0.65 * min(before)


@pytest.mark.slow
def test_half_as_many_steps_more_mend_the_exchange_of_other_weights():
    lesson = definitions()
    network, norm = lesson["relu_writes"], lesson["exchanged"]
    trained = trained_with_layer_norm(lesson, drawn(1000))
    before = lesson["right"](network, trained, lesson["layer_norm"])
    mended = lesson["train_five"](network, trained, norm, 0.3, batches=lesson["BATCHES"][100:])
    after = lesson["right"](network, mended, norm)
    assert all(end > start - 10 for start, end in zip(before, after, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1000, 2000, 4000])
def test_a_large_mean_costs_digits_where_no_relu_writes(first_seed):
    lesson = definitions()
    network, right = lesson["linear_writes"], lesson["right"]
    start = drawn(first_seed)
    trained = lesson["train_five"](
        network, start, lesson["layer_norm"], 0.3, lesson["BATCHES"][:60]
    )
    moved = [weight + 0.1 * (number % 2 == 0) for number, weight in enumerate(trained)]
    before = right(network, trained, lesson["layer_norm"])
    assert right(network, moved, lesson["layer_norm"]) == before
    assert min(right(network, trained, lesson["exchanged"])) > min(before) - 10
    assert max(right(network, moved, lesson["exchanged"])) < min(before) / 2
    assert min(right(network, moved, lesson["wrong_divisor"])) > min(before) - 20


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1000, 2000, 4000])
def test_offsets_slow_the_training_of_other_weights_if_readers_see_the_mean(first_seed):
    lesson = definitions()
    lesson["new_weights"] = lambda count, variance: drawn(first_seed)
    norm, found_after = lesson["exchanged"], lesson["right_after_150"]
    assert min(found_after(norm, lesson["with_offset"](0.05, 0.05))) < 200  # not in each start
    large = lesson["with_offset"](0.2, 0)
    assert max(found_after(norm, large)) < 250
    assert min(found_after(norm, lesson["with_centred_readers"](large))) > 350
