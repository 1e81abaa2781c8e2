"""Predictions: which cells answer one, and the fold over them until the reader has committed.

The cell predict-01 asks for a guess. predict-01-answer computes what comes out, predict-01-read
says it in words, and predict-01-read-why explains it. On the web they are one fold, with all that
stands between them. In the lab, where a reader runs the code, each cell of words is a fold.
"""

import re
from collections.abc import Iterable

ANSWER = re.compile(r"predict-?(\d*)-(?:answer|read).*")
COMMIT = "Commit to an answer first. Then open: what comes out"
WHY = "And why"


def number_of_answer(cell: str | None) -> str | None:
    """`01` for the cells predict-01-answer and predict-01-read; empty for predict-answer."""
    found = ANSWER.fullmatch(cell or "")
    return found and found[1]


def answers(cells: Iterable[str | None]) -> list[range]:
    """For each prediction the places of its answer among the names: its first cell to its last."""
    spans: dict[str, range] = {}
    for place, cell in enumerate(cells):
        number = number_of_answer(cell)
        if number is not None:
            first = spans[number].start if number in spans else place
            spans[number] = range(first, place + 1)
    return list(spans.values())


def folded(cell: str, markdown: str) -> str:
    """A cell's words as a reader of the lab opens them; the blank lines keep them Markdown."""
    summary = WHY if cell.endswith("-why") else COMMIT
    return f"<details><summary><b>{summary}</b></summary>\n\n{markdown}\n\n</details>"
