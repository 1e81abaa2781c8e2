"""The rules for readings, as sentences that pass and sentences that must not."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from normcourse.lesson import Notebook
from tests.notebooks import reading_rules
from tests.notebooks.notebook_rules import RULES

RULES_HERE = {
    name for name, (_, check) in RULES.items() if check.__module__ == reading_rules.__name__
}
EARLIER = "the other net: 0.44 of 30 layers, 7 of 9\n"
TABLE = """five starts, mean after 100 steps
layer  1: size 1.1, spread 0.62
layer 30: size 0.5, spread 0.16
BatchNorm 96.1 % (95.0 to 97.2)
RMSNorm   97.5 % (96.9 to 98.0)
thresholds 0.1 and 1: all
"""
NEXT = "3 of 5 seeds: 26% lost, 48 of 339, 25 %\n"
LOOPS = """steps = 60.0
for depth in (1, 2, 4, 8, 16, 30, 60):
    for seed in range(5):
        train(depth, seed, widths=(64, 32))
"""
PASS = [
    "Behind thirty layers it is 0.16.",
    "Behind layer 30 the spread is 0.16, and behind layer 1 it is 0.62.",
    "The spread falls from 0.62 to 0.16.",  # no row is named
    "With RMSNorm the worst is at 96.9 %, with BatchNorm at 95.0 %.",
    "The best is RMSNorm, 97.5 %.",
    "At the threshold 0.1 all are clipped, as behind 30 layers.",  # the label of a row
    "**Measured here.** 3 of 5 seeds lose 26 % or more, 48 of 339 digits; a quarter is less.",
    "7 of 9 is a count of the section.",
    "The size is 0.5 at 3 of 5 seeds.",  # two outputs, each with one of them
    "Five other random starts were trained, five seeds in all.",
    "Two networks, and 35 networks in two loops.",
    "After layer 30 the spread is more than 0.15, after layer 1 more than 0.6.",
    "RMSNorm reaches almost 98%, BatchNorm at least 95%.",
]
FAIL = [  # rule, sentence
    ("rows_of_a_reading", "Behind thirty layers it is 0.62."),
    ("rows_of_a_reading", "Behind layer 30 the size is 1.1."),
    ("rows_of_a_reading", "With RMSNorm the worst is at 95.0 %."),
    ("rows_of_a_reading", "The best is BatchNorm with 97.5 %."),
    ("rows_of_a_reading", "After layer 30 the spread is more than 0.6."),
    ("readings", "RMSNorm reaches over 98.5%."),
    ("readings", "Behind thirty layers it is 0.61."),
    ("readings", "With the other net it is 0.44."),  # read already
    ("readings", "4 of 5 seeds lose 26 %."),
    ("readings", "four of 5 seeds lose 26 %."),
    ("readings", "60 of 339 digits."),  # 60 is in the code, and in no output
    ("readings", "## Another section\n\n48 of 339 digits."),
    ("things_counted", "Six other random starts were trained."),
    ("things_counted", "These are 20 seeds."),
    ("things_counted", "It has six layers."),
    ("things_counted", "36 networks were trained."),
]


def complaints(folder, sentence):
    cells = [
        new_markdown_cell("# Toy\n\n## Runs", id="title"),
        prints("earlier", "start = load()", EARLIER),
        new_markdown_cell("The other net has 0.44.", id="earlier-read"),
        prints("run", LOOPS, TABLE),
        prints("more", "", NEXT),
        new_markdown_cell(sentence, id="more-read"),
    ]
    path = folder / "03_toy.ipynb"
    path.write_text(nbformat.v4.writes(new_notebook(cells=cells)), "utf-8")
    found = {name: list(RULES[name][1](Notebook(path))) for name in RULES_HERE}
    return {name: lines for name, lines in found.items() if lines}


def prints(name, source, text):
    output = new_output("stream", name="stdout", text=text)
    return new_code_cell(source, id=name, outputs=[output])


@pytest.mark.parametrize("sentence", PASS)
def test_a_true_sentence_passes(tmp_path, sentence):
    assert complaints(tmp_path, sentence) == {}


@pytest.mark.parametrize(("rule", "sentence"), FAIL)
def test_one_rule_sees_an_untrue_sentence(tmp_path, rule, sentence):
    found = complaints(tmp_path, sentence)
    assert rule in found
    assert all(line.startswith("more-read: ") for line in found[rule])


def test_every_rule_for_readings_is_seen_to_complain():
    assert {rule for rule, _ in FAIL} == RULES_HERE
