"""The text of an exercise and its check say the same: its numbers, and what is forbidden.

A check states the parts of its exercise's text that hold a number, made where it can from the
constants that it uses: `@exercise("Exercise 2 (…)", f"mean {MEAN} and variance {VARIANCE}")`.
"""

import ast
import inspect
import re
import textwrap

from tests.notebooks.exercises import checks_of, statements
from tests.notebooks.notebook_rules import rule
from tests.notebooks.prose_rules import ANY_NUMBER, NO_RESULT, PART, WORD

# signs that only set a text: $h = \mathrm{x}$ and *h = \mathrm{x}* are h = \mathrm{x}
SETTING = re.compile(r"[$*`]|\\[,;!]|\\(?:big|Big)[lr]?(?![a-z])")
NO_NUMBER = re.compile(r"\]\([^)]*\)|\d[\d-]*_\w+")  # targets of links, names of files
NOT = r"\b(?:no|not|nor|neither|nothing|without)\b[^.;:]*\b"
FORBIDDEN = {  # what a check forbids: the words in which a page does; another mean is "finished"
    "autograd": NOT + "autograd",
    "finished": NOT + "(?:finished|normlib|library call)",
    "largest": "build no matrix",
}
SAME = {"jacobian": "autograd"}


def plain(text: str) -> str:
    return " ".join(SETTING.sub("", text).split())


def exercises_stated(notebook):
    """(cell, statement, hints, check) of each exercise that has a text and a check."""
    checks = checks_of(notebook)
    for number, (cell, statement, hints) in statements(notebook).items():
        if number in checks:
            yield cell, plain(statement), plain(hints), checks[number]


def place(check) -> str:
    return f"{check.__module__.replace('.', '/')}.py: {check.__name__}"


@rule("lesson")
def numbers_of_an_exercise(notebook):
    """Each number of an exercise's text is stated by its check,
    and what the check states is there, or in a hint.
    """
    for cell, text, hints, check in exercises_stated(notebook):
        for part in map(plain, check.says):
            stated = re.compile(rf"(?<![\w.]){re.escape(part)}(?!\w|\.\d)")
            if not stated.search(text + " " + hints):
                yield (
                    f"{cell.id}: {place(check)} says {part!r}, the text does not: "
                    "write it into the text, or mend the check"
                )
            text = stated.sub(" ", text)
        text = NO_RESULT.sub(" ", NO_NUMBER.sub(" ", text))
        for number in (*ANY_NUMBER.finditer(text), *PART.finditer(text), *WORD.finditer(text)):
            yield (
                f"{cell.id}: {number[0]!r} in {around(text, number)!r} is not stated by "
                f"{place(check)}: write the words round it into @exercise(…), "
                "made from the constant that the check uses"
            )


def around(text: str, found) -> str:
    return text[max(0, found.start() - 25) : found.end() + 15].strip()


def forbidden_by(check) -> set[str]:
    """What a check's calls of `forbid` name, as FORBIDDEN calls it."""
    function = inspect.unwrap(check)
    names = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "forbid":
            means = ast.unparse(ast.Tuple([*node.args[1:]]))
            names |= {SAME.get(mean, mean) for mean in eval(means, function.__globals__)}
            names |= {keyword.arg for keyword in node.keywords}
    return {name if name in FORBIDDEN else "finished" for name in names}


@rule("lesson")
def means_of_an_exercise(notebook):
    """What a check forbids its exercise's text forbids, and the other way round."""
    for cell, text, _, check in exercises_stated(notebook):
        by_check = forbidden_by(check)
        by_text = {name for name, words in FORBIDDEN.items() if re.search(words, text, re.I)}
        for name in sorted(by_check - by_text):
            yield (
                f"{cell.id}: {place(check)} forbids {name}, the text does not: "
                f"write it in words that match {FORBIDDEN[name]!r}"
            )
        for name in sorted(by_text - by_check):
            yield (
                f"{cell.id}: the text forbids {name}, {place(check)} does not: "
                "write forbid(student, …) into the check"
            )
