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
        "halves-norm",
        ("head-run", "print("),
        ("predict-04-answer", "after_training ="),
        ("derive-variance-check", "means ="),
        ("halves-nets", "CASES ="),
        ("halves-fresh", "print("),
        ("readers-run", "assert"),
        ("predict-03-answer", "_, with_layer_norm"),
    )


def drawn(first_seed, matrices=21, width=64):
    """The opening's large weights, of other seeds."""
    shapes = [(64, width)] + [(width, width)] * (matrices - 1) + [(width, 10)]
    start = []
    for number, shape in enumerate(shapes):
        start.append((2 / width) ** 0.5 * draw(5, *shape, seed=first_seed + number))
    return start


def counts(lesson, start, norm, rate=0.3, **batches):
    """Right digits of the opening's network, trained with this norm."""
    network = lesson["relu_writes"]
    trained = lesson["train_five"](network, start, norm, rate, **batches)
    return lesson["right"](network, trained, norm)


def exchanged(lesson, start, rate=0.3):
    """Right digits of the opening's network, trained with LayerNorm, before and after."""
    network = lesson["relu_writes"]
    trained = lesson["train_five"](network, start, lesson["layer_norm"], rate)
    norms = (lesson["layer_norm"], lesson["exchanged"])
    return [lesson["right"](network, trained, norm) for norm in norms]


@pytest.mark.parametrize("rate", [0.003, 0.3])
def test_blocks_that_do_nothing_do_not_learn_with_a_norm_at_the_head(rate):
    lesson = definitions()
    network, norm = lesson["one_norm"], lesson["neither"]
    start = lesson["new_weights"](21, 2 / 64)
    trained = lesson["train_five"](network, start, norm, rate)
    assert max(lesson["right"](network, trained, norm)) < 200


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 1000, 2000])
def test_blocks_that_centre_need_a_small_rate(first_seed):
    lesson = definitions()
    network, norm = lesson["one_norm"], lesson["centred"]
    for rate, enough in ((0.03, True), (0.1, True), (0.3, False)):
        trained = lesson["train_five"](network, drawn(first_seed), norm, rate)
        counts = lesson["right"](network, trained, norm)
        assert min(counts) > 320 if enough else max(counts) < 250


@pytest.mark.slow
def test_the_wrong_divisor_is_nearly_three_times_too_large_at_the_head_alone():
    lesson = definitions()
    layer_norm, start = lesson["layer_norm"], lesson["new_weights"](21, 2 / 64)
    first, *middle, _ = lesson["train_five"](lesson["relu_writes"], start, layer_norm, 0.3)
    h = torch.relu(lesson["data"].test_x @ first)
    ratios = []
    for W in [*middle, None]:
        size = h.square().mean(-1).sqrt()
        ratios.append((size / h.std(-1, correction=0)).mean())
        if W is not None:
            h = h + torch.relu(layer_norm(h) @ W)
    assert ratios == sorted(ratios)
    assert 1.15 < ratios[0] < 1.25
    assert 2.7 < ratios[-1] < 3


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.003, 0.01, 0.03])
def test_forty_blocks_have_to_rescale(rate):
    lesson = definitions()
    network, norm = lesson["one_norm"], lesson["centred"]
    trained = lesson["train_five"](network, drawn(0, 41), norm, rate)
    assert max(lesson["right"](network, trained, norm)) < 300


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 3000])
@pytest.mark.parametrize("rate", [0.01, 0.03, 0.1])
def test_where_a_linear_layer_writes_centring_adds_nothing_to_a_norm_at_the_head(rate, first_seed):
    lesson = definitions()

    def network(weights, x, in_blocks):
        stream, _ = lesson["linear_writes"](weights, x, in_blocks)
        return stream, lesson["exchanged"](stream) @ weights[-1]

    batches = lesson["BATCHES"][:60]
    worst = {}
    for what in ("centred", "neither"):
        norm = lesson[what]
        trained = lesson["train_five"](network, drawn(first_seed), norm, rate, batches)
        worst[what] = min(lesson["right"](network, trained, norm))
    assert worst["centred"] < worst["neither"] + 30
    assert max(worst.values()) < 320


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
def test_a_large_mean_needs_readers_whose_sums_are_not_0():
    lesson = definitions()
    for writers, bound in ((0.05, 355), (0.1, 340), (0.2, 320)):
        share, right = lesson["train_with_offset"](lesson["exchanged"], writers, "centred")
        assert share > 0.9
        assert min(right) > bound
    for writers in (0.1, 0.2):
        _, right = lesson["train_with_offset"](lesson["exchanged"], writers, 0)
        assert max(right) < 200


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [3000, 4000, 5000])
def test_the_mean_alone_costs_more_than_both_errors_and_centred_readers_shorten_the_lead(
    first_seed,
):
    lesson = definitions()
    start = drawn(first_seed)
    centred = lesson["with_centred_readers"](start)
    mean = sum(counts(lesson, start, lesson["wrong_mean"]))
    both = sum(counts(lesson, start, lesson["exchanged"]))
    without = sum(counts(lesson, start, lesson["layer_norm"]))
    mended = sum(counts(lesson, centred, lesson["exchanged"]))
    assert mean < both - 40  # of five starts together
    assert without - mended < 0.7 * (without - both)


@pytest.mark.slow
def test_centred_readers_take_from_a_third_of_the_lead_to_all_of_it():
    lesson = definitions()
    kept = {}
    for first_seed in (1000, 2000, 3000):
        generator = torch.Generator().manual_seed(first_seed)
        batches = torch.randint(1000, (100, 32), generator=generator)
        start = drawn(first_seed)
        without = sum(counts(lesson, start, lesson["layer_norm"], batches=batches))
        both = sum(counts(lesson, start, lesson["exchanged"], batches=batches))
        centred = lesson["with_centred_readers"](start)
        mended = sum(counts(lesson, centred, lesson["exchanged"], batches=batches))
        kept[first_seed] = (without - mended) / (without - both)
    assert 0.4 < kept[1000] < 0.9
    assert kept[2000] < 0.3
    assert kept[3000] < 0


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
    kept, lost = exchanged(definitions(), drawn(0, 11, width=128))
    assert min(kept) > 350
    assert all(after < before - 50 for before, after in zip(kept, lost, strict=True))
    assert max(lost) > 200


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [0, 3000])
def test_the_exchange_costs_half_with_ten_blocks_and_not_in_each_start_with_five(first_seed):
    lesson = definitions()
    kept, lost = exchanged(lesson, drawn(first_seed, 6))
    assert max(after / before for before, after in zip(kept, lost, strict=True)) > 0.6
    kept, lost = exchanged(lesson, drawn(first_seed, 11))
    assert max(after / before for before, after in zip(kept, lost, strict=True)) < 0.6


@pytest.mark.slow
def test_half_as_many_steps_more_mend_the_exchange():
    lesson = definitions()
    network, norm = lesson["relu_writes"], lesson["exchanged"]
    start = lesson["new_weights"](21, 2 / 64)
    trained = lesson["train_five"](network, start, lesson["layer_norm"], 0.3)
    more = torch.randint(1000, (50, 32), generator=torch.Generator().manual_seed(1))
    mended = lesson["train_five"](network, trained, norm, 0.3, batches=more)
    assert max(lesson["right"](network, trained, norm)) < 200
    assert min(lesson["right"](network, mended, norm)) > 365


@pytest.mark.slow
def test_at_half_the_width_the_exchange_costs_more_than_half_of_the_digits():
    kept, lost = exchanged(definitions(), drawn(0, width=32))
    assert max(lost) < 0.5 * min(kept)


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
