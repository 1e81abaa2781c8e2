"""What the text of a lesson states is true: its numbers and its references.

Each complaint names the cell and the fix.

- A result (a decimal, an integer of two digits, a percentage, `thirty`, `a fifth`, `1/6`) repeats
  or rounds an output of the lesson, or repeats its code or a displayed formula: stated_numbers.py
  says when. If it does not, print it. In an exercise's text the numbers that its check states
  count as well: exercise_rules.py.
- How many seeds, networks or layers there are is what the code runs or an output counts.
- What an article says: link the row of the folded table to the claim,
  `[A154](reference/claims.md#A154)`; the numbers of that claim may then be used.
- A lesson, exercise, step (`**Step 2.**`) or anchor that is named is there, also one of another
  lesson (`lesson 03, step 7`, `EQ-LN-GRAD of lesson 02`); a link named "lesson 07" or "06a" leads
  there, and `[A37]` to A37. A lesson needs earlier ones.
- No result are numbers of lessons (those of "The road", too), exercises, steps and sections, years,
  minutes, `code`, ids of arXiv, `#1048`, and what follows the heading Sources.

Readings: reading_rules.py; reported numbers: reported_rules.py; solutions: exercise_rules.py.
"""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

from normcourse.lesson import Notebook
from tests.notebooks import exercises
from tests.notebooks.notebook_rules import rule
from tests.notebooks.stated_numbers import COUNTED, numbers_of, stated

ROOT = Path(__file__).parents[2]
REFERENCE_PAGES = ROOT / "notebooks" / "reference"
REPORTED_PAGES = REFERENCE_PAGES  # apart, so that a test can plant

PLACE = (
    r"(?:§+|\b(?:sections?|sec\.|equations?|eqs?\.|tables?|figures?|figs?\.|appendix|chapter|theorem|lemma|"
    r"version|python|torch|pytorch|numpy))"
    r"\s*\(?[A-Z]?\.?\d+(?:\.\d+)+\)?(?:(?:,|–|-| and| to)\s*\(?\d+(?:\.\d+)+\)?)*"
)
NO_MEASUREMENT = re.compile(  # parts of Markdown in which a decimal is none of our results
    r"```.*?```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`|\]\([^)]*\)|<[^>]*>|https?://\S+|\d{4}\.\d{4,5}\b|"
    + PLACE,
    re.S | re.I,
)
LIST = r"\s*\(?\d+[a-z]?\b(?:(?:,|–|-|,? and| to| or)\s*\d+[a-z]?\b)*"
NO_RESULT = re.compile(  # names that hold an integer
    r"\b(?:lessons?|exercises?|steps?|sections?|parts?|chapters?|tables?|figures?|appendix|issues?|pull)"
    + LIST
    + r"|\b0\d[a-z]\b|\b(?:19|20)\d\d\b(?!\s*%)|\d+ minutes\b|^#+ .*?$|^\s*\d+\. |^\*\*\d+\. |#\d+"
    r"|^\*The road: .*?\.\*",
    re.I | re.M,
)
# paragraphs, list items, rows of tables
BLOCKS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|>]|\d+\.)\s)")
ENTRY_LINK = re.compile(r"\]\((?:\.\./)*reference/(reported|claims|equations)\.md#([\w-]+)\)")
MEASURED = re.compile(r"\s*(?:[-*>]\s+)?\*\*Measured here", re.I)

FORMULA = re.compile(r"\$([^$\n]+)\$")
RELATION = re.compile(r"[=<>]|\\(?:approx|leq|geq|neq)(?![a-z])")
ARITHMETIC = re.compile(r"\\(?:t?frac|sqrt|cdot|pm|%|,)(?![a-z])|[\s\d.,()+/{}^±%-]")

NUMBER_ALONE = re.compile(r"\s*[-+±]?[\d.,]+(?:\s*\\?,?\s*\\%)?\s*")
A_FRACTION = re.compile(r"(?<![\w./])\d+/\d+(?![\w/])")


# Numbers: what the text says


def prose(source: str) -> str:
    """Markdown without code, formulas, links' targets and names that hold a number.

    A formula of numbers alone, $0.3$ or $(1, -1/2)$, is text.
    """
    return NO_RESULT.sub(" ", NO_MEASUREMENT.sub(" ", FORMULA.sub(opened, source)))


def opened(formula: re.Match) -> str:
    if RELATION.search(formula[1]) or ARITHMETIC.sub("", formula[1]):
        return formula[0]
    if NUMBER_ALONE.fullmatch(formula[1]):
        return f" {formula[1]} "
    return f" {' '.join(A_FRACTION.findall(formula[1]))} "


# Numbers: where they may come from


def shown(cell) -> set[float]:
    """The numbers that a code cell's outputs show a reader; fingerprints are left out."""
    found = set()
    for output in cell.outputs:
        parts = [output.alt] if output.fingerprint else output.texts
        found |= set().union(*map(numbers_of, parts))
    return found


def literals(source: str) -> set[float]:
    """The numbers that Python writes as numbers, not those in its strings and comments."""
    read = io.StringIO(source).readline
    try:
        found = [
            token.string
            for token in tokenize.generate_tokens(read)
            if token.type == tokenize.NUMBER
        ]
    except (tokenize.TokenError, SyntaxError):  # plain_python complains
        return set()
    return {
        float(number.replace("_", ""))
        for number in found
        if re.fullmatch(r"[\d_.]+(e[-+]?\d+)?", number)
    }


def fractions(notebook) -> set[float]:
    r"""What 1/6 and \frac{1}{6} come to in code, and in formulas that say what they equal."""
    inline = [formula for formula in FORMULA.findall(notebook.text) if RELATION.search(formula)]
    text = "  ".join([*(cell.source for cell in notebook.code), displayed(notebook.text), *inline])
    found = re.findall(r"(?<![\w.])(\d+) ?/ ?(\d+)|\\t?frac\{(\d+)\}\{(\d+)\}", text)
    pairs = [(above or top, below or bottom) for above, below, top, bottom in found]
    return {int(above) / int(below) for above, below in pairs if int(below)}


def displayed(text: str) -> str:
    return "  ".join(re.findall(r"\$\$(.+?)\$\$", text, re.S))


def said_by_check(notebook) -> dict:
    """Id of an exercise's cell -> the numbers that its check states (exercise_rules.py)."""
    checks = exercises.checks_of(notebook)
    return {
        exercise.cell.id: set().union(*map(numbers_of, checks[exercise.number].says))
        for exercise in notebook.exercises
        if exercise.number in checks
    }


@cache
def entry_numbers(page: str, anchor: str) -> frozenset[float]:
    """The numbers in one entry of a reference page.

    An entry goes from its anchor to the end of its row, or to the next anchor.
    """
    path = REPORTED_PAGES / f"{page}.md"
    text = path.read_text("utf-8") if path.exists() else ""
    entries = re.split(r'(?=<a id=")', text)
    entry = next((entry for entry in entries if entry.startswith(f'<a id="{anchor}"')), "")
    return frozenset(numbers_of(NO_MEASUREMENT.sub(" ", entry)))


def linked(block: str) -> set[float]:
    """The numbers of the entries of reported.md and claims.md that a block links to."""
    return set().union(*(entry_numbers(*link) for link in ENTRY_LINK.findall(block)))


@rule("lesson")
def numbers_in_prose(notebook):
    """Every number in the text has an origin.

    What counts is a decimal, an integer of two digits, a percentage, a large number word, a part.
    """
    seen = set().union(*map(shown, notebook.code))
    exact = set().union(*(literals(cell.source) for cell in notebook.code))
    exact |= numbers_of(displayed(notebook.text))
    parts = fractions(notebook)
    said = said_by_check(notebook)
    for cell, block in blocks(notebook):
        near = seen | linked(block)
        for number in stated(prose(COUNTED.sub(" ", block))):
            origins = (parts if "/" in number.text else exact) | said.get(cell.id, set())
            if not number.small and not number.is_backed_by(near, origins):
                yield (
                    f"{cell.id}: {number.text!r} is in no output, "
                    "code or displayed formula of this lesson, and rounds none: "
                    "print it, or put it into reference/reported.md and link to its row: "
                    "[reported](reference/reported.md#…)"
                )


def blocks(notebook):
    """(cell, block) of every paragraph, list item and row of a table before the heading Sources."""
    for cell in notebook.markdown:
        for block in BLOCKS.split(cell.source):
            if re.match(r"\s*###? .*Sources\s*$", block.strip().split("\n")[0]):
                return
            yield cell, block


# References


NEEDS = re.compile(r"\*\*Needs\*\*(.*?)(?: ·|\n\n|\Z)", re.S)


@cache
def lessons() -> list[str]:
    """Their numbers."""
    return sorted(Notebook(path).number for path in (ROOT / "notebooks").glob("*.ipynb"))


@rule("lesson", "solutions")
def references(notebook):
    """Lessons, exercises and steps that the text names are there; a link says what it leads to."""
    numbers = {
        int(found[1])
        for cell in notebook.code
        if (found := re.fullmatch(r"ex(\d+)-(?:stub|solution)", cell.id))
    }
    text = "\n\n".join(cell.source for cell in notebook.markdown)
    steps = {int(number) for number in re.findall(r"\*\*Step (\d+)", text)}
    for cell in notebook.markdown:
        # the last: minutes, in a title
        no_text = r"```.*?```|`[^`\n]+`|\]\([^)]*\)|with the exercises \d+"
        plain = re.sub(no_text, " ", cell.source, flags=re.S)
        for number in named("lessons?", plain):
            if number not in lessons():
                yield (f"{cell.id}: there is no lesson {number}: there are " + " ".join(lessons()))
        elsewhere = re.sub(
            r"lessons? \d+[a-z]?(?:'s)?,? (?:exercises?|steps?)" + LIST, " ", plain, flags=re.I
        )
        elsewhere = re.sub(
            r"(?:exercises?|steps?)" + LIST + r" of lesson \d+", " ", elsewhere, flags=re.I
        )
        for kind, there in (("exercise", numbers), ("step", steps)):
            for number in named(kind + "s?", elsewhere):
                if number.isdigit() and int(number) not in there:
                    yield f"{cell.id}: this lesson has no {kind} {number}: it has {sorted(there)}"
        for words, target in re.findall(
            r"\[([^\]]*)\]\((?:\.\./)?(\d\d[a-z]?)_\w+\.ipynb", cell.source
        ):
            for number in re.findall(r"(?<![\w.])0\d[a-z]?\b", words):
                if number != target:
                    yield f"{cell.id}: a link says lesson {number} and leads to lesson {target}"
        for said, target in re.findall(r"\[(A\d+)\]\([^)\s]*claims\.md#(A\d+)\)", cell.source):
            if said != target:
                yield f"{cell.id}: a link says claim {said} and leads to claim {target}"


@rule("lesson")
def needs(notebook):
    """The line **Needs** of the title names earlier lessons."""
    title = notebook.markdown[0]
    line = NEEDS.search(title.source)
    for number in named("lessons?", re.sub(r"\]\([^)]*\)", "]", line[1]) if line else ""):
        if number >= notebook.number:
            yield f"{title.id}: lesson {notebook.number} needs lesson {number}, which comes later"


OF_ANOTHER = re.compile(  # lesson 03, step 7; lesson 00a's exercise 3; step 2 of lesson 03
    r"lesson (?P<lesson>\d\d[a-z]?)(?:'s|,)? (?P<kind>exercise|step) (?P<number>\d+)"
    r"|(?P<kind2>exercise|step) (?P<number2>\d+) of (?:side )?lesson (?P<lesson2>\d\d[a-z]?)",
    re.I,
)
TAG_OF = re.compile(  # EQ-LN-GRAD of lesson 02; lesson 04 (EQ-RMS-JACOBIAN)
    r"(?P<tag>EQ-[A-Z0-9-]+) of (?:side )?lesson (?P<lesson>\d\d[a-z]?)"
    r"|lesson (?P<lesson2>\d\d[a-z]?) \((?P<tag2>EQ-[A-Z0-9-]+)\)"
)


@rule("lesson", "solutions")
def references_to_other_lessons(notebook):
    """An exercise, a step or an equation that the text finds in another lesson is there."""
    for cell in notebook.markdown:
        plain = " ".join(re.sub(r"\]\([^)]*\)|[\[`]", "", cell.source).split())
        for found in OF_ANOTHER.finditer(plain):
            lesson = found["lesson"] or found["lesson2"]
            kind = (found["kind"] or found["kind2"]).lower()
            there = parts_of(lesson)[kind]
            if int(found["number"] or found["number2"]) not in there:
                yield f"{cell.id}: {found[0]!r}, but lesson {lesson} has the {kind}s {there}"
        for found in TAG_OF.finditer(plain):
            lesson = found["lesson"] or found["lesson2"]
            tag = found["tag"] or found["tag2"]
            if tag not in parts_of(lesson)["equation"]:
                yield f"{cell.id}: {found[0]!r}, but lesson {lesson} does not state {tag}"


@cache
def parts_of(lesson: str) -> dict:
    """The exercises, the steps and the equations of a lesson, by its number."""
    notebooks = [Notebook(path) for path in (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")]
    text = "\n\n".join(notebook.text for notebook in notebooks)
    return {
        "exercise": [each.number for notebook in notebooks for each in notebook.exercises],
        "step": [int(number) for number in re.findall(r"^\*\*Step (\d+)", text, re.M)],
        "equation": re.findall(r"^\*\*\[(EQ-[A-Z0-9-]+)\]\*\*", text, re.M),
    }


def named(kind: str, text: str) -> list[str]:
    found = re.findall(rf"\b{kind}({LIST})", text, re.I)
    return [number for numbers in found for number in re.findall(r"\d+[a-z]?", numbers)]
