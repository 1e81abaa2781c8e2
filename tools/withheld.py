"""What a copy without solutions leaves out of a lesson: their links, and answers in folds."""

import re

from tools import merge

FOLDER = "solutions/"
LINK = re.compile(r"\[solutions/[^\]\n]*\]\([^)\n]*\)")
ANSWER = re.compile(r"\n*<details><summary>One way to write it</summary>.*?</details>", re.S)
LATER = "handed out later"


def withhold(cells: list[dict]) -> None:
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(LATER, ANSWER.sub("", merge.text(cell)))
