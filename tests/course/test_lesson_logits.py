"""Lesson 05a's table "How sure is this?": what no cell of the lesson shows."""

import pytest
import torch

from normcourse import draw, measures
from normlib import gradients
from tests.course.lesson_tables import each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

CELLS = ("setup", "failure-train", "ex5-stub", "ex5-check", "growth-define")
RATES = (1.0, 10.0, 100.0, 1000.0)
SETS = (40, 80, 120, 160)  # added to the seeds: four more sets of five problems
KINDS = {
    "half the width": {"width": 32},
    "twice the width": {"width": 128},
    "four times the steps": {"steps": 400},
}
PLAIN_RATES = (2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1)


def lesson(problems: int = 0, tokens: int = 32) -> dict:
    """The lesson's own functions, on other problems or with more tokens; nothing is trained."""
    own = ("own-run", "first_logits ="), ("predict-02-answer", "held =")
    names = run_cells("05a_logits.ipynb", *CELLS, *own)

    def drawn(*shape, seed=0):
        rows, *rest = shape[1:]
        return draw(shape[0], tokens if rows == 32 else rows, *rest, seed=seed + problems)

    if problems or tokens != 32:
        names["draw"] = drawn
    return names


def solved(names: dict, remedy: str, rate: float, **options) -> int:
    return names["solved"](
        names["train_attention"](rate=rate, **names["REMEDIES"][remedy], **options)
    )


def held(names: dict, rate: float, **options) -> int:
    """QK-norm with the lengths of both matrices held at the start's."""

    @torch.no_grad()
    def first_length(query, key, logits):
        for matrix in (query, key):
            length = matrix.norm(dim=(1, 2), keepdim=True)
            matrix.mul_(matrix.shape[-1] ** 0.5 / length)

    run = names["train_attention"](names["normalized"], rate, after_step=first_length, **options)
    return names["solved"](run)


@pytest.mark.parametrize("problems", each(SETS, quick=40))
def test_the_rate_10_divides_the_remedies(problems):
    names = lesson(problems)
    assert solved(names, "divided by 8", 10.0) == 0
    assert solved(names, "QK-clip at 10", 10.0) <= 1
    assert solved(names, "cap of 5", 10.0) == 5
    assert solved(names, "QK-norm", 10.0) == 5


@pytest.mark.slow
@pytest.mark.parametrize("problems", SETS)
def test_the_other_rates_on_other_problems(problems):
    names = lesson(problems)
    for remedy in names["REMEDIES"]:
        assert solved(names, remedy, 1.0) == 5
        for rate in (100.0, 1000.0):
            assert solved(names, remedy, rate) == (5 if remedy == "QK-norm" else 0)
    assert held(names, 10.0) == 5
    assert held(names, 100.0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_width_and_steps_change_nothing(kind):
    names = lesson()
    for rate in RATES[:3]:
        assert solved(names, "QK-norm", rate, **KINDS[kind]) == 5
        assert solved(names, "cap of 5", rate, **KINDS[kind]) == (0 if rate == 100 else 5)
        for remedy in ("divided by 8", "QK-clip at 10"):
            found = solved(names, remedy, rate, **KINDS[kind])
            assert found == 5 if rate == 1 else found <= 1
    assert held(names, 10.0, **KINDS[kind]) == 5
    assert held(names, 100.0, **KINDS[kind]) == 0


@pytest.mark.slow
def test_with_twice_the_tokens_the_rate_100_divides_them():
    names = lesson(tokens=64)
    for remedy in names["REMEDIES"]:
        assert solved(names, remedy, 10.0) == 5
        assert solved(names, remedy, 100.0) == (5 if remedy == "QK-norm" else 0)
    assert held(names, 100.0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("tau", [5.0, 20.0])
def test_another_threshold_does_not_help_qk_clip(tau):
    names = lesson()

    @torch.no_grad()
    def clipped(query, key, logits):
        new_query, new_key = names["check"].both_clipped(query, key, logits.amax((1, 2)), tau)
        query.copy_(new_query)
        key.copy_(new_key)

    for rate in (10.0, 100.0):
        run = names["train_attention"](names["divided"], rate, after_step=clipped)
        assert names["solved"](run) == 0


@pytest.mark.slow
def test_qk_clip_in_time_still_loses_most():
    """Clipped by the logits of the matrices that the step has made."""
    found = 0
    for problems in (0, *SETS):
        names = lesson(problems)
        tokens = names["draw"](5, 32, 64)

        @torch.no_grad()
        def in_time(query, key, logits, tokens=tokens, names=names):
            largest = names["divided"](tokens @ query, tokens @ key).amax((1, 2))
            new_query, new_key = names["check"].both_clipped(query, key, largest, 10.0)
            query.copy_(new_query)
            key.copy_(new_key)

        run = names["train_attention"](names["divided"], 10.0, after_step=in_time)
        found += names["solved"](run)
    assert found < 13  # of 25


@pytest.mark.slow
@pytest.mark.parametrize("problems", SETS)
def test_adam_bears_qk_clip_at_a_tenth(problems):
    names = lesson(problems)
    for remedy in names["REMEDIES"]:
        usual = [solved(names, remedy, rate, optimizer=torch.optim.Adam) for rate in (0.1, 1.0)]
        bears = {"QK-clip at 10": [5, 0], "QK-norm": [5, 5]}
        assert usual == bears.get(remedy, [0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("problems", SETS)
def test_learned_gains_lose_the_rate_100(problems):
    names = lesson(problems)
    gains = torch.ones(2, 5, 1, 64, requires_grad=True)

    def with_gains(q, k):
        return names["normalized"](q, k, *gains)

    assert names["solved"](names["train_attention"](with_gains, 100.0, also_learned=[gains])) == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, *KINDS.values()], ids=str)
def test_plain_products_solve_nothing_at_any_rate(how):
    sets = (0, *SETS) if not how else (0,)
    for problems in sets:
        names = lesson(problems)
        runs = {rate: names["train_attention"](names["plain"], rate, **how) for rate in PLAIN_RATES}
        assert all(names["solved"](run) == 0 for run in runs.values())
        assert solved(names, "divided by 8", 1.0, **how) == 5
        if not how and problems == 0:
            means = {rate: run.errors.mean() for rate, run in runs.items()}
            assert min(means, key=means.get) == 0.02  # the lesson's


@pytest.mark.slow
def test_the_own_weight_tells_who_learns_and_the_jacobian_does_not():
    starts, ends, norms = [], [], []
    for problems in SETS:
        names = lesson(problems)
        logits = names["train_attention"](names["plain"], 0.02).logits
        starts.append(names["own_weights"](logits[0]))
        ends.append(names["own_weights"](logits[-1]))
        jacobians = gradients.softmax_jacobian(logits[0])
        norms.append(measures.spectral_norm(jacobians).flatten())
    start, norm = torch.cat(starts), torch.cat(norms)
    learned = (torch.cat(ends) > 0.5).double()
    assert learned[start < 1e-6].sum() == 0
    assert learned[start < 1e-4].mean() < 0.03
    assert learned[start > 1e-2].mean() > 0.95
    assert learned[norm < 0.01].mean() > 0.05
    assert learned[norm > 0.25].mean() < 0.25
