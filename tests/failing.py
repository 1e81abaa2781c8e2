"""What a failing test tells: where, what is wrong there, what to edit, which command renews it."""

from collections.abc import Iterable
from itertools import groupby, takewhile, zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
END = "(the end)"
SHOWN = 100  # characters of a line, round the place where it differs
RENEW = "make pages"


def said(where: str | Path, what: str, *, edit: str = "", run: str = "") -> str:
    """The message; `run` is a command, such as make pages."""
    inside = isinstance(where, Path) and where.is_relative_to(ROOT)
    place = where.relative_to(ROOT).as_posix() if inside else str(where)
    steps = []
    if edit:
        steps.append(f"Edit {edit}.")
    if run:
        steps.append(f"Run: {run}")
    return " ".join([f"{place}: {what}.", *steps])


def fail(where: str | Path, what: str, *, edit: str = "", run: str = "") -> None:
    """Fail with the message alone, without the lines of the test."""
    pytest.fail(said(where, what, edit=edit, run=run), pytrace=False)


def fail_if_any(faults: Iterable[str]) -> None:
    """Fail with each of these messages on a line of its own, if there are any."""
    found = list(faults)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def in_any_order(text: str) -> list[list[str]]:
    """The lines of a page; the rows of a table are sorted."""
    groups = groupby(text.splitlines(), key=lambda line: line.startswith("| "))
    return [sorted(lines) if rows else list(lines) for rows, lines in groups]


def same_as_made(path: Path, made: str | bytes) -> None:
    """Fail, with the first line that differs, unless the file is what `make pages` makes."""
    if not path.is_file():
        fail(path, "it is not there", run=RENEW)
    if isinstance(made, bytes):
        if path.read_bytes() != made:
            fail(path, "it is another picture than the lesson's", run=RENEW)
        return
    if in_any_order(path.read_text("utf-8")) == in_any_order(made):
        return
    lines = zip_longest(path.read_text("utf-8").splitlines(), made.splitlines(), fillvalue=END)
    for number, (there, wanted) in enumerate(lines, 1):
        if there != wanted:
            pairs = zip(there, wanted, strict=False)
            same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
            shown = slice(max(0, same - SHOWN // 2), same + SHOWN // 2)
            what = f"line {number} has {there[shown]!r}, and {RENEW} makes {wanted[shown]!r}"
            fail(path, what, run=RENEW)
