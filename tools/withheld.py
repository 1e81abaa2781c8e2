"""What a copy without solutions leaves out of a lesson: their links, and answers in folds."""

import re

from normcourse.lesson import FOLD, Cell

FOLDER = "solutions/"
LINK = re.compile(r"\[solutions/[^\]\n]*\]\([^)\n]*\)")
FOLDED = re.compile(rf"\n*{FOLD.pattern}", re.S)
ANSWER = "One way to write it"
LATER = "handed out later"


def withhold(cell: Cell) -> Cell:
    if cell.cell_type != "markdown":
        return cell
    words = FOLDED.sub(lambda fold: "" if fold["summary"] == ANSWER else fold[0], cell.source)
    return cell.changed(source=LINK.sub(LATER, words))
