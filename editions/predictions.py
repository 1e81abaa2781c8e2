"""The fold over a prediction's answer, until the reader has committed.

On the web the answer is one fold, with all that stands between its cells. In the lab, where a
reader runs the code, each cell of words is a fold.
"""

COMMIT = "Commit to an answer first. Then open: what comes out"
WHY = "And why"


def folded(cell: str, markdown: str) -> str:
    """A cell's words as a reader of the lab opens them; the blank lines keep them Markdown."""
    summary = WHY if cell.endswith("-why") else COMMIT
    return f"<details><summary><b>{summary}</b></summary>\n\n{markdown}\n\n</details>"
