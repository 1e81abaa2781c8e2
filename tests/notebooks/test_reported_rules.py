"""A sentence of a lesson and the row of reported.md that it links to: one that changes is seen."""

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from normcourse.lesson import Notebook
from tests.notebooks import reported_rules

ROW = '| <a id="h100"></a> 3.35 TB/s, 989 TFLOP/s | H100 SXM | a data sheet |\n'
TEXT = "Its bandwidth is $W = 3.35$ TB/s ([reported](reference/reported.md#h100)). Half is 1.7."


def complaints(folder, monkeypatch, text=TEXT, row=ROW):
    page = folder / "reported.md"
    page.write_text(row, "utf-8")
    monkeypatch.setattr(reported_rules, "PAGE", page)
    path = folder / "07_toy.ipynb"
    notebook = new_notebook(cells=[new_markdown_cell(text, id="why")])
    path.write_text(nbformat.v4.writes(notebook), "utf-8")
    return list(reported_rules.reported_sentences(Notebook(path)))


@pytest.mark.parametrize("said", ["$W = 3.35$", "3.4", "about 3.3", "almost 1,000"])
def test_a_sentence_repeats_or_rounds_its_row(tmp_path, monkeypatch, said):
    assert complaints(tmp_path, monkeypatch, TEXT.replace("$W = 3.35$", said)) == []


@pytest.mark.parametrize("said", ["$W = 3.53$", "3.2", "over 3.4", "about 5"])
def test_a_sentence_that_says_something_else_is_seen(tmp_path, monkeypatch, said):
    (found,) = complaints(tmp_path, monkeypatch, TEXT.replace("$W = 3.35$", said))
    assert found.startswith("why: ") and "h100" in found


def test_a_changed_row_is_seen(tmp_path, monkeypatch):
    assert complaints(tmp_path, monkeypatch, row=ROW.replace("3.35", "3.53"))
