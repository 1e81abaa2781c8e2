"""notation.md explains every letter that stands in an equation."""

import re
from pathlib import Path

import pytest

from tests.equations import latex
from tests.failing import fail

PAGES = Path(__file__).parents[2] / "notebooks/reference"
BLOCKS = latex.blocks((PAGES / "equations.md").read_text("utf-8"))
COMMANDS = {
    r"\frac",
    r"\sqrt",
    r"\partial",
    r"\cdot",
    r"\qquad",
    r"\begin",
    r"\end",
    r"\top",
    r"\mathbf",
}
COMMANDS |= (
    latex.IGNORED | latex.RELATIONS | latex.ACCENTS | set(latex.ELEMENTWISE) | set(latex.REDUCTIONS)
)
COMMANDS |= {*latex.PAIRS, *latex.PAIRS.values()}


def letters(formula):
    """Latin and Greek letters of LaTeX; words in upright type and commands are none."""
    formula = re.sub(r"\\mathrm\{[^}]*\}|\\(begin|end)\{gathered\}", " ", formula)
    return set(re.findall(r"\\[A-Za-z]+|[A-Za-z]", formula)) - COMMANDS


def explained():
    """Letters in the first column of notation.md's tables."""
    rows = re.findall(r"^\| ([^|]+) \|", (PAGES / "notation.md").read_text("utf-8"), re.M)
    return set().union(
        *(letters(formula) for row in rows for formula in re.findall(r"\$([^$]+)\$", row))
    )


@pytest.mark.parametrize("tag", BLOCKS)
def test_every_letter_is_explained(tag):
    missing = letters(BLOCKS[tag]) - explained()
    if missing:
        letter = " and ".join(sorted(missing))
        fail(PAGES / "notation.md", f"no table explains {letter}, which {tag} has", edit="a table")


def test_the_reader_of_letters():
    found = letters(
        r"\hat{x}_{n,i} \leq \mathrm{LN}(a) \sqrt{\varepsilon} \frac{\partial L}{\partial y}"
    )
    assert found == {"x", "n", "i", "a", r"\varepsilon", "L", "y"}
