"""The solved exercises of a lesson, for the tests of its checks.

`load("01_batch_norm")["batch_norm"]` is one of them.
"""

import contextlib
from functools import cache
from pathlib import Path

import pytest
import torch

from normcourse.lesson import Notebook
from tests.notebooks.nbstrict import left_out_here

SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"


@cache
def load(lesson: str) -> dict:
    """What a solution's first code cell and its cells tagged `solution` define.

    Do not change it. The first cell sets the default dtype; it is set back, so that no test depends
    on which ran before.
    """
    path = SOLUTIONS / f"{lesson}.ipynb"
    code = Notebook(path).code
    namespace = {"__name__": f"solutions.{lesson}"}
    default = torch.get_default_dtype()
    solved = [cell for cell in code[1:] if "solution" in cell.tags]
    try:
        with contextlib.chdir(SOLUTIONS):  # where a notebook runs
            for cell in [code[0], *solved]:
                if not left_out_here(cell):
                    exec(compile(cell.source, f"{path.name}:{cell.id}", "exec"), namespace)
    finally:
        torch.set_default_dtype(default)
    return namespace


def every_slip(cases: dict):
    """Parametrize a test with (check_, answer, message) from {check: {name: (answer, message)}}."""
    found = [
        pytest.param(check_, *case, id=f"{check_.__name__}: {name}")
        for check_, named in cases.items()
        for name, case in named.items()
    ]
    return pytest.mark.parametrize(("check_", "answer", "message"), found)


def wrong_answers_are_named(cases: dict):
    """The test that each of every_slip(cases) earns its message."""

    @every_slip(cases)
    def test(check_, answer, message):
        verdict = check_(answer)
        assert verdict.startswith("[x]"), verdict
        assert message in verdict, verdict

    return test
