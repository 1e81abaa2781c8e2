"""Write notebooks/reference/symbols.md: what each letter means, by alphabet and by lesson.

A lesson says so in its own words, in lines such as

    Symbols of this section: $x$ one row; $\\mu$ its mean, $\\sigma^{2}$ its variance.

An entry begins with a formula behind the colon, a comma or a semicolon; `$l$ and $u$` share one
meaning; what follows another semicolon is a remark; the list ends with its sentence. In one lesson
a letter has one meaning: where it returns, the line repeats it word for word or leaves it out.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

import files

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "notebooks" / "reference"
PAGE = REFERENCE / "symbols.md"

LINE = re.compile(r"\bSymbols[^:.\n$]*: *(.+)")
FORMULA = r"\$[^$]+\$"
ENTRY = re.compile(
    rf"(?:^|[,;:.] (?:and |so )?)({FORMULA}(?:(?:, | and |, and ){FORMULA})*) (?=[a-z*=(])"
)
ACCENT = r"\\(?:hat|tilde|bar|dot)\{[^{}]*\}"
NAMED = r"_\{\\mathrm\{[^{}]*\}\}"  # an index that is a word makes a symbol of its own
LETTER = re.compile(rf"(?:{ACCENT}|\\mathrm\{{[^{{}}]*\}}|\\[A-Za-z]+|[A-Za-z])(?:{NAMED})?")
GREEK = [
    *("alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "kappa", "lambda"),
    *("mu", "nu", "xi", "pi", "rho", "sigma", "tau", "phi", "varphi", "chi", "psi", "omega"),
    *("Gamma", "Delta", "Sigma", "Phi", "Psi"),
]
HEAD = """# Symbols, by alphabet and by lesson

What a letter means in the lessons, in their own words. In one lesson a letter has one meaning;
the symbols that all lessons share are in [notation.md](notation.md).
Made from the lessons' lines "Symbols" by `tools/symbols.py`: edit the lesson, not this page.
"""


class Entry(NamedTuple):
    lesson: str
    letter: str  # without index and power
    symbol: str
    meaning: str


def letter_of(formula: str) -> str:
    """The letter that a formula is about: x of $x_{i}^{2}$."""
    return LETTER.search(formula)[0]


def entries_of(lesson: str, line: str) -> list[Entry]:
    """The entries of one line of symbols."""
    line = line.partition(". ")[0]
    found = list(ENTRY.finditer(line))
    ends = [match.start() for match in found[1:]] + [len(line)] * bool(found)
    entries = []
    for match, end in zip(found, ends, strict=True):
        meaning = line[match.end() : end].partition(";")[0].strip(" .,")
        for formula in re.findall(FORMULA, match[1]):
            entries.append(Entry(lesson, letter_of(formula), formula, meaning))
    return entries


def entries() -> list[Entry]:
    """All entries of all lessons, in the order of reading."""
    found = []
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb")):
        lesson = path.name.partition("_")[0]
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                for line in LINE.findall("".join(cell["source"])):
                    found += entries_of(lesson, line)
    return found


def clashes(found: list[Entry]) -> list[str]:
    """Letters with two meanings in one lesson."""
    meanings: dict[tuple[str, str], str] = {}
    faults = []
    for entry in found:
        first = meanings.setdefault((entry.lesson, entry.letter), entry.meaning)
        if first != entry.meaning:
            faults.append(
                f"lesson {entry.lesson}: {entry.letter} is '{first}' and '{entry.meaning}'. "
                "Choose another letter, or repeat the meaning word for word."
            )
    return faults


def order(entry: Entry) -> tuple:
    """Latin letters first, then Greek ones, in their alphabets."""
    letter = re.sub(r"^\\(?:hat|tilde|bar|dot|mathrm)\{(.*)\}$", r"\1", entry.letter)
    name = letter.lstrip("\\")
    place = GREEK.index(name) if letter.startswith("\\") and name in GREEK else -1
    return (place, name.lower(), name, entry.letter, entry.lesson)


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def page(found: list[Entry]) -> str:
    unique = list(dict.fromkeys(found))
    lines = [HEAD, "## By alphabet", "", row("symbol", "lesson", "meaning"), "| --- | --- | --- |"]
    lines += [row(entry.symbol, entry.lesson, entry.meaning) for entry in sorted(unique, key=order)]
    lines += ["", "## By lesson"]
    for lesson in dict.fromkeys(entry.lesson for entry in unique):
        lines += ["", f"### {lesson}", "", row("symbol", "meaning"), "| --- | --- |"]
        lines += [row(entry.symbol, entry.meaning) for entry in unique if entry.lesson == lesson]
    return "\n".join(lines) + "\n"


def main() -> None:
    files.write(PAGE, page(entries()))


if __name__ == "__main__":
    main()
