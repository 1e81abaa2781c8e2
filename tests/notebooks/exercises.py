"""Where a lesson's exercises are: their statements and their checks."""

import importlib
import re

HEADING = re.compile(r"^\*\*(\d+)\. (.+?)\*\*[^\n]*$", re.M)
END = re.compile(r"<details>|^Solution: |^#+ ", re.M)


def statements(notebook) -> dict:
    """Number of an exercise -> (its cell, its statement before the hints, its hints)."""
    found = {}
    for cell in notebook.markdown:
        for heading in HEADING.finditer(cell.source):
            statement, *rest = END.split(cell.source[heading.end() :])
            found[int(heading[1])] = cell, statement, " ".join(rest)
    return found


def titles(notebook) -> dict:
    """Number of an exercise -> its title."""
    found = [heading for cell in notebook.markdown for heading in HEADING.finditer(cell.source)]
    return {int(heading[1]): heading[2] for heading in found}


def checks_of(notebook) -> dict:
    """Number of an exercise -> its check, as the cell exN-check calls it."""
    homes = dict(
        found[::-1]
        for cell in notebook.code
        for found in re.findall(r"normcourse\.checks import (\w+) as (\w+)", cell.source)
    )
    found = {}
    for cell in notebook.code:
        number = re.fullmatch(r"ex(\d+)-check", cell.id)
        call = re.search(r"\b(check\w*)\.(\w+)\(", cell.source)
        if number and call and call[1] in homes:
            module = importlib.import_module(f"normcourse.checks.{homes[call[1]]}")
            found[int(number[1])] = getattr(module, call[2])
    return found
