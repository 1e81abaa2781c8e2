"""What a failing test tells: where, what is wrong there, what to edit, which command renews it."""

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
END = "(the end)"
SHOWN = 100  # characters of a line that differs


def said(where: str | Path, what: str, *, edit: str = "", run: str = "") -> str:
    """The message; `run` is a tool with its arguments, such as tools/claims.py."""
    place = where.relative_to(ROOT).as_posix() if isinstance(where, Path) else where
    steps = []
    if edit:
        steps.append(f"Edit {edit}.")
    if run:
        steps.append(f"Run: .venv/bin/python {run}")
    return " ".join([f"{place}: {what}.", *steps])


def fail(where: str | Path, what: str, *, edit: str = "", run: str = "") -> None:
    """Fail with the message alone, without the lines of the test."""
    pytest.fail(said(where, what, edit=edit, run=run), pytrace=False)


def fail_if_any(faults: Iterable[str]) -> None:
    """Fail with each of these messages on a line of its own, if there are any."""
    found = list(faults)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def same_as_made(page: Path, made: str, *, run: str, edit: str = "") -> None:
    """Fail, with the first line that differs, unless the stored page is what its tool makes."""
    stored = page.read_text("utf-8") if page.is_file() else ""
    lines = zip_longest(stored.splitlines(), made.splitlines(), fillvalue=END)
    for number, (there, wanted) in enumerate(lines, 1):
        if there != wanted:
            what = (
                f"line {number} is {there[:SHOWN]!r}, and {run.split()[0]} makes {wanted[:SHOWN]!r}"
            )
            fail(page, what, edit=edit, run=run)
