"""What the text of a lesson states is true: numbers, number words, inline formulas, references.

A lesson that keeps these rules is named in STRICT_PROSE. Each complaint names the cell and the fix.

- A result (a decimal, an integer of two digits, a percentage, `thirty`, `a fifth`) stands in an
  output, a code cell or a displayed formula of the lesson. If it is in none, print it. A percentage
  is printed as one; `a quarter` is right only where the output says 25. In an exercise's text the
  numbers that its check states count as well: exercise_rules.py.
- How many starts, seeds or draws there were is what the code runs or an output counts.
- What an article says: link the row of the folded table to the claim,
  `[A154](reference/claims.md#A154)`; the numbers of that claim may then be used.
- A lesson, exercise, step (`**Step 2.**`) or anchor that is named is there, also one of another
  lesson (`lesson 03, step 7`, `EQ-LN-GRAD of lesson 02`); a link named "lesson 07" or "06a" leads
  there, and `[A37]` to A37.
- A solution has the titles of its lesson and its exercises, in their order; a number in it, of one
  digit as well, stands in its own code, outputs or formulas, or is stated by its check.
- No result are numbers of lessons (those of "The road", too), exercises, steps and sections, years,
  minutes, `code`, ids of arXiv, `#1048`, and the section Sources. Everything else is compared.

Readings: reading_rules.py; reported numbers: reported_rules.py; titles: title_rules.py.
"""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

from normcourse.lesson import Notebook
from tests.notebooks import exercises
from tests.notebooks.notebook_rules import rule

# Numbers of the lessons that keep the strict rules: add yours
STRICT_PROSE = {
    "00",
    "00a",
    "00b",
    "01",
    "01a",
    "02",
    "02a",
    "02b",
    "03",
    "03a",
    "03b",
    "04",
    "04a",
    "05",
    "05a",
    "06",
    "06a",
    "06b",
    "07",
    "07a",
    "08",
    "08a",
}
LESSONS = ["00", "01", "02", "03", "04", "05", "06", "07", "08"]
LESSONS += [
    "00a",
    "00b",
    "01a",
    "02a",
    "02b",
    "03a",
    "03b",
    "04a",
    "05a",
    "06a",
    "06b",
    "07a",
    "08a",
]
ROOT = Path(__file__).parents[2]
REFERENCE_PAGES = ROOT / "notebooks" / "reference"
REPORTED_PAGES = REFERENCE_PAGES  # apart, so that a test can plant

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?!\.?\d)")  # a decimal
ANY_NUMBER = re.compile(
    r"(?<![\w.#])(?<![A-Za-z]-)\d{1,3}(?:,\d{3})+(?!\d)|(?<![\w.#])(?<![A-Za-z]-)\d+(?:\.\d+)?(?:e[+-]?\d+)?"
)
PERCENT = re.compile(r"\s*(?:\\?%|percent\b|points\b)")
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

SMALL = ["three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = {word: float(value) for value, word in enumerate(SMALL, 3)}
WORDS |= {word: 10.0 * value for value, word in enumerate(TENS, 2)}
LARGE = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
PARTS = {
    "third": 3,
    "quarter": 4,
    "fifth": 5,
    "sixth": 6,
    "eighth": 8,
    "tenth": 10,
    "hundredth": 100,
}
PARTS |= {"thousandth": 1000, "millionth": 1e6}
WORD = re.compile(r"\b(" + "|".join([*WORDS, *LARGE]) + r")(?:s|fold)?\b", re.I)
PART = re.compile(
    r"\b(a|one|two|three|four|five)[ -](" + "|".join(PARTS) + r")s?\b(?! (?:reader|time|way)\b)",
    re.I,
)
COUNTS = {"a": 1, "one": 1, "two": 2} | WORDS


def label(notebook) -> str:
    """03 or 02a."""
    return notebook.path.name.split("_")[0]


def strict(notebook) -> bool:
    return notebook.kind != "other" and label(notebook) in STRICT_PROSE


# Numbers: what the text says


def prose(source: str) -> str:
    """Markdown without code, formulas, links' targets and names that hold a number."""
    # $0.3$ is a number
    bare = re.sub(r"\$\s*([-+±]?[\d.,]+(?:\s*\\?,?\s*\\%)?)\s*\$", r" \1 ", source)
    return NO_RESULT.sub(" ", NO_MEASUREMENT.sub(" ", bare))


def value_of(text: str) -> float:
    return float(text.replace(",", ""))


def stated(block: str):
    """(text, value, is it a word, is it small) of every number in a block of Markdown."""
    text = prose(block)
    for match in ANY_NUMBER.finditer(text):
        percent = PERCENT.match(text, match.end())
        small = re.fullmatch(r"\d", match[0]) and not percent
        yield (
            match[0] + (percent[0].rstrip() if percent else ""),
            value_of(match[0]),
            False,
            bool(small),
        )
    for match in PART.finditer(text):
        yield match[0], COUNTS[match[1].lower()] / PARTS[match[2].lower()], True, False
    for match in WORD.finditer(PART.sub(" ", text)):
        word = match[1].lower()
        yield match[0], (WORDS | LARGE)[word], True, word in SMALL


# Numbers: where they may come from


def numbers_of(text: str) -> set[float]:
    found = {value_of(number) for number in ANY_NUMBER.findall(text)}
    return found | {(WORDS | LARGE)[word.lower()] for word in WORD.findall(text)}


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


def formulas(cell) -> set[float]:
    displayed = re.findall(r"\$\$(.+?)\$\$", cell.source, re.S)
    return {value_of(number) for formula in displayed for number in ANY_NUMBER.findall(formula)}


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


def close(value: float, known: set[float]) -> bool:
    return any(abs(value - other) <= 1e-9 * abs(other) for other in known)


def has(value: float, word: bool, known: set[float]) -> bool:
    """Say whether a value is known; a word may stand for a percentage or a small part.

    A fifth is 20 %, and a thousand times less is 0.001.
    """
    if close(value, known):
        return True
    other = 1 / value if value >= 100 else 100 * value
    return word and close(other, known)


@rule()
def measured_numbers(notebook):
    """A decimal in the text is in the notebook's code or outputs.

    Or its paragraph says `reported`.
    """
    if strict(notebook):
        return  # numbers_in_prose asks for more
    outputs = [output for cell in notebook.code for output in cell.outputs]
    known = [cell.source for cell in notebook.code]
    known += [text for output in outputs for text in (*output.texts, output.alt)]
    known = {number for text in known for number in NUMBER.findall(text)}
    for cell in notebook.markdown:
        for block in BLOCKS.split(NO_MEASUREMENT.sub(" ", cell.source)):
            for number in NUMBER.findall(block):
                if number not in known and "reported" not in block.lower():
                    yield (
                        f"{cell.id}: {number} is in no output: print it, "
                        "or say where it is reported"
                    )


@rule("lesson")
def numbers_in_prose(notebook):
    """Every number in the text has an origin.

    What counts is a decimal, an integer of two digits, a percentage, a large number word, a part.
    """
    if not strict(notebook):
        return
    known = set().union(
        *map(shown, notebook.code), *(literals(cell.source) for cell in notebook.code)
    )
    known |= set().union(*map(formulas, notebook.markdown))
    said = said_by_check(notebook)
    for cell, block in blocks(notebook):
        allowed = known | linked(block) | said.get(cell.id, set())
        for text, value, word, small in stated(block):
            if not small and not has(value, word, allowed):
                yield (
                    f"{cell.id}: {text!r} is in no output, "
                    "code or displayed formula of this lesson: "
                    "print it, or put it into reference/reported.md and link to its row: "
                    "[reported](reference/reported.md#…)"
                )


def blocks(notebook):
    """(cell, block) of every paragraph, list item and row of a table before the section Sources."""
    for cell in notebook.markdown:
        for block in BLOCKS.split(cell.source):
            if re.match(r"\s*## .*Sources\s*$", block.strip().split("\n")[0]):
                return
            yield cell, block


# References


@rule("lesson", "solutions")
def references(notebook):
    """Lessons, exercises and steps that the text names are there; a link says what it leads to."""
    if not strict(notebook):
        return
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
            if number not in LESSONS:
                yield (
                    f"{cell.id}: there is no lesson {number}: lessons are named 00 to 08, "
                    "side lessons 00a"
                )
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
    if not strict(notebook):
        return
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


@rule("lesson")
def listed_tags(notebook):
    """The line **Tags** of the title names the equations that are stated.

    It names them in full or short (EQ-RMS, -LN).
    """
    if not strict(notebook):
        return
    text = "\n\n".join(cell.source for cell in notebook.markdown)
    title = notebook.markdown[0]
    line = re.search(r"\*\*Tags\*\*(.*)", title.source)
    if not line:  # a lesson need not begin with codes
        return
    listed = set(full_names(re.findall(r"EQ-[A-Z0-9-]+|(?<=\s)-[A-Z0-9-]+", line[1])))
    stated_here = set(re.findall(r"^\*\*\[(EQ-[A-Z0-9-]+)\]\*\*", text, re.M))
    for tag in sorted(listed - stated_here):
        yield f"{title.id}: {tag} is in the line **Tags**, and stated nowhere in the lesson"
    for tag in sorted(stated_here - listed):
        yield f"{title.id}: {tag} is stated in the lesson, and missing in the line **Tags**"


def full_names(names):
    """EQ-RMS, -LN -> EQ-RMS, EQ-RMS-LN: a short name goes on from the last full one."""
    full = ""
    for name in names:
        full = full if name.startswith("-") else name
        yield full + name if name.startswith("-") else name
