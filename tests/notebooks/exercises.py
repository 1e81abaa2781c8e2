"""The checks of a lesson's exercises."""

import importlib
import re

from normcourse.lesson import Notebook


def checks_of(notebook: Notebook) -> dict:
    """Number of an exercise -> its check, as the cell exN-check calls it."""
    homes = dict(
        found[::-1]
        for cell in notebook.code
        for found in re.findall(r"normcourse\.checks import (\w+) as (\w+)", cell.source)
    )
    found = {}
    for exercise in notebook.exercises:
        source = exercise.check.source if exercise.check else ""
        call = re.search(r"\b(check\w*)\.(\w+)\(", source)
        if call and call[1] in homes:
            module = importlib.import_module(f"normcourse.checks.{homes[call[1]]}")
            found[exercise.number] = getattr(module, call[2])
    return found
