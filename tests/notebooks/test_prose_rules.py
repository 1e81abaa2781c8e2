"""The rules for text see each class of untrue text.

They complain about nothing in a sound lesson.
"""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from normcourse.lesson import Notebook
from tests.notebooks import prose_rules
from tests.notebooks.notebook_rules import RULES

RULES_HERE = {
    name for name, (_, check) in RULES.items() if check.__module__ == prose_rules.__name__
}
ROW = (
    '| <a id="llama"></a> 27.3 % at 64M | what it is | arXiv 2302.13971 |\n| <a id="b"></a> 5.5 |\n'
)
REPORTED = "[reported](reference/reported.md#llama)"
TITLE = (
    "# 03 · Toy\n\n*The road: 02 row → **03 toy** → 17 the end.*\n\n"
    "**Needs** lesson 02, about 60 minutes."
)
EQUATIONS = r"""**[EQ-RMS]**
$$
y_{i} = w_{i}\, \hat{x}_{i}, \qquad
\hat{x}_{i} = \frac{x_{i}}{r}, \qquad
r = \sqrt{\frac{1}{D} \sum_{j=1}^{D} x_{j}^{2} + \varepsilon}
$$

**[EQ-RMS-MOMENTS]**
$$
q = \sigma^{2} + \mu^{2}, \qquad
q = \frac{1}{D} \sum_{j=1}^{D} x_{j}^{2}
$$

**Step 1.** Where $\mu = 0$, $q = \mu^{2} + \sigma^{2}$, and $9 - 2.5^{2} = 2.75$.
So $\hat{x}_{i} = \frac{x_{i}}{r}$ (step 1)."""


def lesson():
    """A small lesson whose text is true."""
    return {
        "title": TITLE,
        "setup": ("from normcourse.checks import rms_norm as check\ndepth = 30\n", "0.167\n"),
        "why": (
            "## Why\n\n"
            "Thirty layers, in 2019, with $(1, -1/6)$ each, "
            "as lesson 07 and [lesson 02](02_layer_norm.ipynb) say. "
            "See [03a](03a_rms_norm_in_models.ipynb), [A37](reference/claims.md#A37), "
            "lesson 03, step 1, and EQ-RMS of lesson 03."
        ),
        "derive": EQUATIONS,
        "others": f"## Others\n\n27.3 % is {REPORTED} for Llama 2. Exercise 1 asks for 2.",
        "ex1": "## Exercises\n\n**1. Size** · 10 minutes\n\nTake 300 values.",
        "ex1-stub": ("answer = None", ""),
        "sources": "## Sources\n\n- 99 papers.",
    }


def complaints(folder, monkeypatch, change=None):
    monkeypatch.setattr(prose_rules, "said_by_check", lambda notebook: {"ex1": {300.0}})
    entry_numbers = prose_rules.entry_numbers.__wrapped__
    monkeypatch.setattr(prose_rules, "entry_numbers", entry_numbers)
    monkeypatch.setattr(prose_rules, "REPORTED_PAGES", folder)
    (folder / "reported.md").write_text(ROW, "utf-8")
    cells = [cell(name, content) for name, content in (lesson() | (change or {})).items()]
    path = folder / "03_toy.ipynb"
    path.write_text(nbformat.v4.writes(new_notebook(cells=cells)), "utf-8")
    found = {name: list(RULES[name][1](Notebook(path))) for name in RULES_HERE}
    return {name: lines for name, lines in found.items() if lines}


def cell(name, content):
    if isinstance(content, str):
        return new_markdown_cell(content, id=name)
    source, printed = content
    outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
    return new_code_cell(source, id=name, outputs=outputs)


FAULTS = [  # the rule, the cell, what is there, what is planted
    ("numbers_in_prose", "others", "27.3 %", "23.7 %"),  # a reported percentage
    ("numbers_in_prose", "others", "reported.md#llama", "reported.md#other"),  # from nowhere
    ("numbers_in_prose", "others", "27.3 %", "5.5 %"),  # another row's number
    ("numbers_in_prose", "others", REPORTED, "reported"),  # the word alone is no source
    ("numbers_in_prose", "why", "Thirty layers", "Forty"),  # a number word
    ("numbers_in_prose", "why", "Thirty layers", "31"),  # an integer
    ("numbers_in_prose", "why", "Thirty layers", "100,000"),
    ("numbers_in_prose", "why", "-1/6", "-1/5"),
    ("numbers_in_prose", "others", "27.3 %", "about 36 %"),
    ("numbers_in_prose", "why", "Thirty", "7 %"),  # a percentage of one digit
    ("numbers_in_prose", "why", "Thirty", "A fifth of the"),
    ("numbers_in_prose", "why", "Thirty", "$0.123$"),  # a number dressed as a formula
    ("numbers_in_prose", "why", "Thirty layers", "99"),  # that Sources has it does not count
    ("numbers_in_prose", "ex1", "300", "301"),  # a number in an exercise's question
    ("references", "why", "lesson 07", "lesson 09"),
    ("references", "why", "[lesson 02]", "[lesson 03]"),
    ("references", "why", "[03a]", "[03c]"),
    ("references", "why", "[A37]", "[A38]"),
    ("references_to_other_lessons", "why", "lesson 03, step 1", "lesson 03, step 99"),
    ("references_to_other_lessons", "why", "lesson 03, step 1", "lesson 02's exercise 99"),
    ("references_to_other_lessons", "why", "lesson 03, step 1", "exercise 99 of lesson 02"),
    ("references_to_other_lessons", "why", "EQ-RMS of lesson 03", "EQ-RMS of lesson 07"),
    ("references_to_other_lessons", "why", "EQ-RMS of lesson 03", "lesson 07 (EQ-RMS)"),
    ("references", "others", "Exercise 1", "Exercise 4"),
    ("references", "derive", "(step 1)", "(step 2)"),
    ("needs", "title", "lesson 02", "lessons 02 and 06a"),
]


def test_a_sound_lesson_keeps_every_rule(tmp_path, monkeypatch):
    assert complaints(tmp_path, monkeypatch) == {}


@pytest.mark.parametrize(("rule", "name", "there", "planted"), FAULTS)
def test_one_rule_sees_the_fault(tmp_path, monkeypatch, rule, name, there, planted):
    text = lesson()[name]
    assert there in text
    found = complaints(tmp_path, monkeypatch, {name: text.replace(there, planted)})
    assert set(found) - {"numbers_in_prose"} == {rule} - {"numbers_in_prose"}
    assert all(line.startswith(f"{name}: ") for line in found[rule])


def test_every_strict_rule_is_seen_to_complain():
    assert {rule for rule, *_ in FAULTS} == RULES_HERE


def test_every_reported_number_has_a_name_and_a_source():
    page = (prose_rules.REFERENCE_PAGES / "reported.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][2:]
    names = [re.match(r'\| <a id="([a-z0-9-]+)"></a>', row) for row in rows]
    assert all(names), "each row begins with an anchor, by which lessons link to it"
    assert len({name[1] for name in names}) == len(rows)
    for row in rows:
        source = row.split("|")[3]
        assert re.search(r"arXiv \d{4}\.\d{4,5}|github\.com/\S+|https://", source), (
            f"no source: {row}"
        )
