"""reported.md and the lessons that link to it: a number that changes on either side is seen."""

import pytest

from normcourse.lesson import Notebook
from tests.notebooks.reported_rules import PAGE, reported_sentences, unstated

LESSONS = [Notebook(path) for path in sorted(PAGE.parents[1].glob("[0-9]*.ipynb"))]
# Numbers that stand on the page alone, for who looks them up: no lesson repeats them
ON_THE_PAGE_ALONE = {
    "llama-alpha": [0.05, 0.2, 0.5, 0.8, 1.0, 1024.0, 2048.0, 4096.0, 8192.0],
    "batch-norm-place": [71.0, 72.7],
    "vit-alpha": [0.6],
    "vit-ablation": [81.1, 81.6],
    "dit-fid": [19.9, 20.8, 45.7, 45.9, 63.9, 64.9],
    "dit-layer-swapped": [3.69, 6.07],
    "derf-images": [82.5, 82.8, 83.6, 83.8],
    "derf-gpt2": [2.94, 2.97],
    "rms-norm-bleu": [26.6, 26.8, 27.7],
    "deep-without": [100.0],
    "nfnet": [8.7],
    "removed-after": [0.03],
    "bhyt-speed": [1.0, 1.6, 3.0, 15.8, 2026.0],
}


def test_each_number_of_a_row_is_a_lesson_s():
    left = unstated(PAGE.read_text("utf-8"), LESSONS)
    assert left == ON_THE_PAGE_ALONE, (
        "a row of reported.md and the lessons that link to it differ, or a lesson states a number "
        "no longer: correct one of them, or change ON_THE_PAGE_ALONE"
    )


@pytest.mark.parametrize(
    ("there", "planted", "row"),
    [("3.35 TB/s", "3.53 TB/s", "h100"), ("1.59, 1.53", "1.58, 1.53", "llama-loss")],
)
def test_a_changed_row_is_seen(there, planted, row):
    text = PAGE.read_text("utf-8")
    assert there in text
    assert unstated(text.replace(there, planted), LESSONS)[row]


@pytest.mark.parametrize(
    ("label", "cell", "there", "planted"),
    [("07", "count-why", "W = 3.35", "W = 3.53"), ("05", "again-end", "1.59", "1.58")],
)
def test_a_changed_sentence_is_seen(label, cell, there, planted):
    (path,) = PAGE.parents[1].glob(f"{label}_*.ipynb")
    notebook = Notebook(path)
    (found,) = (each for each in notebook.markdown if each.id == cell)
    assert there in found.source
    found.source = found.source.replace(there, planted)
    wanted = f"{cell}: {planted.split()[-1]} is not in "
    assert any(said.startswith(wanted) for said in reported_sentences(notebook))
