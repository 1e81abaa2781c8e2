"""In one lesson a letter has one meaning.

A lesson says what its letters mean in its own words, in lines such as

    Symbols of this section: $x$ one row; $\\mu$ its mean, $\\sigma^{2}$ its variance.

An entry begins with a formula behind the colon, a comma or a semicolon; `$l$ and $u$` share one
meaning; what follows another semicolon is a remark; the list ends with its sentence. Where a letter
returns, the line repeats its meaning word for word or leaves it out.
"""

import re

from tests.notebooks.notebook_rules import rule

LINE = re.compile(r"\bSymbols[^:.\n$]*: *(.+)")
FORMULA = r"\$[^$]+\$"
ENTRY = re.compile(
    rf"(?:^|[,;:.] (?:and |so )?)({FORMULA}(?:(?:, | and |, and ){FORMULA})*) (?=[a-z*=(])"
)
ACCENT = r"\\(?:hat|tilde|bar|dot)\{[^{}]*\}"
NAMED = r"_\{\\mathrm\{[^{}]*\}\}"  # an index that is a word makes a symbol of its own
LETTER = re.compile(rf"(?:{ACCENT}|\\mathrm\{{[^{{}}]*\}}|\\[A-Za-z]+|[A-Za-z])(?:{NAMED})?")


def letter_of(formula: str) -> str:
    """The letter that a formula is about: x of $x_{i}^{2}$."""
    return LETTER.search(formula)[0]


def entries_of(line: str) -> list[tuple[str, str]]:
    """(letter, meaning) of each entry of one line of symbols."""
    line = line.partition(". ")[0]
    found = list(ENTRY.finditer(line))
    ends = [match.start() for match in found[1:]] + [len(line)] * bool(found)
    entries = []
    for match, end in zip(found, ends, strict=True):
        meaning = line[match.end() : end].partition(";")[0].strip(" .,")
        for formula in re.findall(FORMULA, match[1]):
            entries.append((letter_of(formula), meaning))
    return entries


@rule("lesson")
def letters_have_one_meaning(notebook):
    meanings = {}
    for cell in notebook.markdown:
        for line in LINE.findall(cell.source):
            for letter, meaning in entries_of(line):
                first = meanings.setdefault(letter, meaning)
                if first != meaning:
                    yield (
                        f"{cell.id}: {letter} is {first!r} and {meaning!r}: choose another letter, "
                        "or repeat the meaning word for word"
                    )
