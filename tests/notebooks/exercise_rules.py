"""The text of an exercise and its check say the same: its numbers, and what is forbidden.

A check states the parts of its exercise's text that hold a number, made where it can from the
constants that it uses: `@exercise("Exercise 2 (…)", f"mean {MEAN} and variance {VARIANCE}")`.
"""

import ast
import inspect
import re
from textwrap import dedent, shorten

from normcourse.lesson import Notebook
from tests.notebooks.exercises import checks_of
from tests.notebooks.notebook_rules import rule
from tests.notebooks.prose_rules import (
    ARITHMETIC,
    BLOCKS,
    FORMULA,
    NO_RESULT,
    RELATION,
    linked,
    literals,
    prose,
    shown,
)
from tests.notebooks.stated_numbers import DIGITS, Stated, numbers_of, stated

# signs that only set a text: $h = \mathrm{x}$ and *h = \mathrm{x}* are h = \mathrm{x}
SETTING = re.compile(r"[$*`]|\\[,;!]|\\(?:big|Big)[lr]?(?![a-z])")
SOLUTION = re.compile(
    r"^(?:\*\*|## )(\d+\. .+?)(?:\.?\*\*|$)", re.M
)  # **1. Title.** or ## 1. Title
NO_NUMBER = re.compile(r"\]\([^)]*\)|\d[\d-]*_\w+")  # targets of links, names of files
NOT = r"(?:\b(?:no|not|nor|neither|nothing|never|without|avoid)\b|n['’]t\b)[^.;:]*\b"
FORBIDDEN = {  # what a check forbids: the words in which a page does; another mean is "finished"
    "autograd": NOT + "autograd",
    "finished": NOT + "(?:finished|normlib|library call)",
}


def plain(text: str) -> str:
    return " ".join(SETTING.sub("", text).split())


def exercises_stated(notebook):
    """(cell, statement, hints, check) of each exercise that has a text and a check."""
    checks = checks_of(notebook)
    for each in notebook.exercises:
        if each.number in checks:
            yield each.cell, plain(each.statement), plain(each.hints), checks[each.number]


def place_of(check) -> str:
    return f"{check.__module__.replace('.', '/')}.py: {check.__name__}"


@rule("lesson")
def numbers_of_an_exercise(notebook):
    """The numbers of an exercise's text are those of its check, in any words.

    The numbers of one part of `says` follow each other in the text, or in a hint: (2, 5) is not
    (5, 2), and `at most 10` not `at least 10`.
    """
    for cell, text, hints, check in exercises_stated(notebook):
        there = numbers(text)
        helped = numbers(hints)
        parts = [part for part in map(plain, check.says) if numbers(part)]
        for part in sorted(parts, key=lambda part: -len(numbers(part))):
            if not any(take(numbers(part), place) for place in (there, helped)):
                yield (
                    f"{cell.id}: {place_of(check)} says {shorten(part, 90)!r}, the text does not: "
                    "write its numbers into the text, or correct the check"
                )
        known = [number for part in parts for number in numbers(part)]
        for number in there:
            if not any(map(number.agrees, known)):
                yield (
                    f"{cell.id}: {number.text!r} is not stated by {place_of(check)}: "
                    "write the words around it into @exercise(…), "
                    "made from the constant that the check uses"
                )


def numbers(text: str) -> list[Stated]:
    return list(stated(NO_RESULT.sub(" ", NO_NUMBER.sub(" ", text))))


def take(part: list[Stated], there: list[Stated]) -> bool:
    """Take these numbers, one behind the other, out of those that are there."""
    for start in range(len(there) - len(part) + 1):
        if all(map(Stated.agrees, part, there[start:])):
            del there[start : start + len(part)]
            return True
    return False


def forbidden_by(check) -> set[str]:
    """What a check's calls of `forbid` name, as FORBIDDEN calls it."""
    function = inspect.unwrap(check)
    names = set()
    for node in ast.walk(ast.parse(dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "forbid":
            means = ast.unparse(ast.Tuple([*node.args[1:]]))
            names |= set(eval(means, function.__globals__))
    return {name if name in FORBIDDEN else "finished" for name in names}


@rule("lesson")
def means_of_an_exercise(notebook):
    """What a check forbids its exercise's text forbids, and the other way round."""
    for cell, text, _, check in exercises_stated(notebook):
        by_check = forbidden_by(check)
        by_text = {name for name, words in FORBIDDEN.items() if re.search(words, text, re.I)}
        for name in sorted(by_check - by_text):
            yield (
                f"{cell.id}: {place_of(check)} forbids {name}, the text does not: "
                f"write it in words that match {FORBIDDEN[name]!r}"
            )
        for name in sorted(by_text - by_check):
            yield (
                f"{cell.id}: the text forbids {name}, {place_of(check)} does not: "
                "write forbid(student, …) into the check"
            )


# Solutions


def lesson_of(solutions) -> Notebook | None:
    path = solutions.path.parent.parent / solutions.path.name
    return Notebook(path) if path.exists() else None  # test_notebooks.py complains


@rule("solutions")
def solutions_in_order(notebook):
    """Solutions have the titles of their lesson and its exercises, in their order."""
    lesson = lesson_of(notebook)
    if lesson is None:
        return
    first = notebook.markdown[0]
    title = lesson.markdown[0].source.splitlines()[0].replace("# ", "# Solutions ", 1)
    if first.source.splitlines()[0] != title:
        yield f"{first.id}: begin with {title!r}, the title of the lesson"
    wanted = [f"{each.number}. {each.title}" for each in lesson.exercises]
    headings = [SOLUTION.match(cell.source) for cell in notebook.markdown]
    found = [heading[1] for heading in headings if heading]
    if found != wanted:
        yield f"the solutions are {found}, the exercises of the lesson {wanted}: copy their titles"
    ids = [cell.id for cell in notebook.cells if re.match(r"ex\d", cell.id)]
    if ids != sorted(ids, key=place_of_a_solution):
        yield (
            f"the cells are {ids}: each solution has its text exN, then exN-solution, exN-check, "
            "and what follows"
        )


def place_of_a_solution(name: str) -> tuple[int, int]:
    number, _, part = name.removeprefix("ex").partition("-")
    order = ["", "text", "solution", "check"]
    return int(number), order.index(part) if part in order else len(order)


def of_numbers(block: str) -> str:
    """A block in which a formula of numbers without a relation, $(1, -1/2)$, is text."""

    def opened(formula):
        if RELATION.search(formula[1]) or ARITHMETIC.sub("", formula[1]):
            return formula[0]
        return " ".join(re.findall(DIGITS, formula[1]))

    return FORMULA.sub(opened, block)


@rule("solutions")
def numbers_of_a_solution(notebook):
    """A number in a solution's text is in its code, its outputs, its formulas or its exercise."""
    lesson = lesson_of(notebook)
    checks = checks_of(lesson) if lesson else {}
    for cell in notebook.markdown:
        exercise = re.match(r"ex(\d+)", cell.id)
        if not exercise or int(exercise[1]) not in checks:
            continue
        own = [code for code in notebook.code if re.match(rf"{exercise[0]}(?!\d)", code.id)]
        seen = set().union(*map(shown, own))
        exact = set().union({0.0}, *(literals(code.source) for code in own))
        exact |= numbers_of(" ".join(checks[int(exercise[1])].says))
        tried = [formula for formula in FORMULA.findall(cell.source) if RELATION.search(formula)]
        exact |= numbers_of(" ".join(tried))  # formula_rules.py evaluates them
        for block in BLOCKS.split(SOLUTION.sub("", cell.source)):
            for number in stated(prose(of_numbers(block))):
                if not number.is_backed_by(seen | linked(block), exact):
                    yield (
                        f"{cell.id}: {number.text!r} is in no code, output or formula of this "
                        "solution, and not stated by its check: compute it there, or write it as a "
                        "formula"
                    )
