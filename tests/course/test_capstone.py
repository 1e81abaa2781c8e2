"""The trial of lesson 08: whom it compares, and which word follows from the numbers."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
import torch

from normcourse import capstone, measures, training
from tests.course.small_grid import small_grid

RECORDS = Path(__file__).parents[2] / "notebooks" / "records"
KEY = ("dyt", "none", "cnn")


@pytest.fixture(scope="module")
def trial():
    return capstone.Trial(RECORDS)


def made(mean, low, high, holm, bh):
    """A trial of one comparison with these numbers."""
    trial = object.__new__(capstone.Trial)
    trial.family = {KEY: measures.Paired(mean, low, high, p=0.01)}
    trial.holm = {KEY: holm}
    trial.bh = {KEY: bh}
    return trial


WORDS = {
    "better": made(3, 1, 5, holm=0.04, bh=0.01),
    "worse": made(-3, -5, -1, holm=0.04, bh=0.01),
    "better?": made(3, 1, 5, holm=0.05, bh=0.04),
    "worse?": made(-1, -1.5, -0.5, holm=0.5, bh=0.04),  # a hint, although it lies in the margin
    "equal": made(0.5, -1, 1.9, holm=1, bh=0.05),
    "open": made(0.5, -1, 2, holm=1, bh=0.5),
}


@pytest.mark.parametrize("word", WORDS)
def test_the_word_follows_from_the_numbers(word):
    assert WORDS[word].verdict(*KEY) == word


def test_a_comparison_below_the_margin_is_open():
    assert made(0.5, -2, 1, holm=1, bh=0.5).verdict(*KEY) == "open"


def test_near_the_best_is_who_is_shown_to_be_and_not_who_may_be(monkeypatch):
    """Against "best": a constant 1 behind, 1 behind with a wide spread, and 2 behind."""
    rows = {
        "batch_norm": [90.0, 92, 91, 93],
        "layer_norm": [89.0, 91, 90, 92],
        "dyt": [80.0, 95, 92, 95],
        "none": [88.0, 90, 89, 91],
    }
    trial = object.__new__(capstone.Trial)
    monkeypatch.setattr(trial, "points", lambda net, name: torch.tensor(rows.get(name, [])))
    assert trial.near_best("cnn") == ("batch_norm", ["layer_norm"])


def test_without_pairing_three_sure_words_are_others(trial):
    """As lesson 08 prints: two fall to a hint, one rises."""
    apart = trial.unpaired()
    assert apart.family["dyt", "none", "cnn"][:3] == trial.family["dyt", "none", "cnn"][:3]
    sure = ("better", "worse")
    words = {key: (trial.verdict(*key), apart.verdict(*key)) for key in trial.family}
    changed = {key: w for key, w in words.items() if (w[0] in sure) != (w[1] in sure)}
    assert changed == {
        ("batch_norm", "none", "pre"): ("better", "better?"),
        ("layer_norm", "none", "residual"): ("better?", "better"),
        ("layer_norm", "skip_init", "residual_sgd"): ("better", "better?"),
    }


def test_tuning_seeds_disagree_where_each_alone_takes_another_rate(trial):
    """The best count of each seed by hand, the lower rate of equals."""
    differ = 0
    for record in trial.records.values():
        for norm in record.settings.norms:
            best = {}
            for run in record.runs:
                if (run.norm, run.phase) == (norm, "tuning"):
                    last = 0 if run.diverged or not run.validation else run.validation[-1]
                    best[run.seed] = max(best.get(run.seed, (0, 0)), (last, -run.lr))
            differ += len({rate for _, rate in best.values()}) > 1
    assert trial.disagreements() == (differ, 85)


def test_a_comparison_is_that_of_the_stored_counts(trial):
    """Lesson 08's second way: the counts as the record has them, and no code of the trial."""
    counts = {}
    for run in trial.records["residual"].runs:
        if run.phase == "final":
            counts[run.norm, run.seed] = run.test_right
    seeds = trial.records["residual"].settings.seeds
    a = torch.tensor([counts["dyt", seed] / 4 for seed in seeds], dtype=torch.float64)
    b = torch.tensor([counts["none", seed] / 4 for seed in seeds], dtype=torch.float64)
    assert trial.family["dyt", "none", "residual"] == measures.paired(a, b)


def test_without_a_norm_post_ln_has_the_runs_of_pre_ln_and_no_comparison_of_its_own(trial):
    assert trial.points("post", "none").equal(trial.points("pre", "none"))
    assert ("skip_init", "none", "pre") in trial.family
    assert ("skip_init", "none", "post") not in trial.family
    assert ("layer_norm", "none", "post") in trial.family


def test_each_pair_is_there_in_some_net_and_the_corrections_are_those_of_the_whole_family(trial):
    assert {key[:2] for key in trial.family} == set(capstone.PAIRS)
    smallest = min(trial.family, key=lambda key: trial.family[key].p)
    whole = len(trial.family)
    assert trial.holm[smallest] == pytest.approx(whole * trial.family[smallest].p)


def losses(trial, net, contender):
    return [run.loss for run in trial.finals(net, contender)]


def test_no_run_is_compared_with_itself_and_what_is_left_out_is_the_same_run(trial):
    for first, second, net in trial.family:
        assert losses(trial, net, first) != losses(trial, net, second), (first, second, net)
    for first, second, net in capstone.ONE_RUN:
        assert losses(trial, net, first) == losses(trial, net, second), (first, second, net)


def test_a_smaller_family_is_corrected_for_its_own_number_and_the_whole_one_stays(trial):
    before = dict(trial.holm)
    smaller = trial.only([("batch_norm", "none")])
    assert set(smaller.family) == {key for key in trial.family if key[:2] == ("batch_norm", "none")}
    smallest = min(smaller.family, key=lambda key: smaller.family[key].p)
    assert smaller.holm[smallest] == pytest.approx(7 * trial.family[smallest].p)
    assert trial.holm == before
    assert smaller.verdict("batch_norm", "none", "mlp") == "better"
    assert trial.verdict("batch_norm", "none", "mlp") == "better?"


def test_points_reads_any_record_of_the_trial(trial):
    record = training.load_record(RECORDS / "sqrt_d_mlp.json")
    runs = [run for run in record.runs if (run.norm, run.phase) == ("dyt_slope_1", "final")]
    right = [run.test_right / 4 for run in sorted(runs, key=lambda run: run.seed)]
    assert capstone.points(record, "dyt_slope_1").tolist() == right
    assert trial.points("mlp", "none").equal(capstone.points(trial.records["mlp"], "none"))


def test_a_protocol_is_run_with_its_own_contenders_rates_and_seeds(float64_as_in_the_lessons):
    of_trial = training.load_record(RECORDS / "capstone_mlp.json")
    trial = object.__new__(capstone.Trial)
    trial.records = {"mlp": replace(of_trial, settings=small_grid())}
    protocol = {
        "setting": "mlp",
        "contenders": ["dyt", "none"],
        "rates": [0.02, 0.2],
        "tuning_seeds": [7],
        "seeds": [8],
    }
    mine = trial.run(protocol)
    for name in protocol["contenders"]:
        tuning = {
            (run.lr, run.seed) for run in mine.runs if run.norm == name and run.phase != "final"
        }
        assert tuning == {(0.02, 7), (0.2, 7)}
        assert [run.seed for run in capstone.finals(mine, name)] == [8]
    assert len(mine.runs) == 6
    assert mine.settings.model == small_grid().model


def test_a_report_has_one_line_for_each_net(trial, capsys):
    trial.report("batch_norm", "group_norm")
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "BN - GN: seeds, mean, interval, p, Holm, BH"
    nets = [net for net in capstone.NETS if ("batch_norm", "group_norm", net) in trial.family]
    assert [line[:14].strip() for line in lines] == [capstone.NETS[net] for net in nets]
    assert lines[0].split()[-1] == trial.verdict("batch_norm", "group_norm", nets[0])


def test_pairing_gains_little_here(trial):
    """Lesson 08: the median correlation of two contenders over the seeds is 0.14."""
    found = []
    for first, second, net in trial.family:
        both = torch.stack([trial.points(net, first), trial.points(net, second)])
        found.append(torch.corrcoef(both)[0, 1].item())
    assert len(found) == 96
    assert median(found) == pytest.approx(0.14, abs=0.005)


def test_at_30_layers_all_train_with_adam_too_and_the_lead_is_smaller(trial):
    """Lesson 08's row: tuned, LN leads by 18.35 with Adam, and by 62.75 with plain SGD."""
    record = training.load_record(RECORDS / "capstone_deep_adam.json")
    lead = capstone.points(record, "layer_norm") - capstone.points(record, "none")
    assert lead.min() > 0
    assert lead.mean().item() == pytest.approx(18.35)
    for name in ("layer_norm", "dyt", "skip_init"):
        assert capstone.points(record, name).min() >= 90
    assert trial.records["deep"].settings.train["optimizer"] == "sgd"
    for net in ("mlp", "post"):
        assert trial.verdict("dyt_sqrt_d", "none", net) == "open"
