"""Each planted fault has a place and a test; and what is said of one, in a project of two lines."""

import re
import subprocess

import pytest

from tests import try_faults
from tests.faults import FAULTS, Fault
from tests.planting import ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.what}")
def test_a_fault_has_its_place_and_its_test(fault):
    text = (ROOT / fault.file).read_text("utf-8")
    assert fault.planted(text) != text
    file, _, name = fault.test.partition("::")
    there = (ROOT / file).read_text("utf-8")
    function = name.partition("[")[0]
    assert not name or re.search(rf"^(?:def )?{function}(?:\(| = )", there, re.M)


def test_no_fault_is_there_twice():
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)


ANSWER = "def answer():\n    return 42\n"
TESTS = """
import time
from answer import answer

def test_right():
    while answer() == 0:
        time.sleep(1)
    assert answer() in (42, 43)

def test_red():
    assert answer() == 41
"""
RIGHT = "test_answer.py::test_right"
VERDICTS = {  # what is planted, the test, the verdict
    "another number": ("42", "41", RIGHT, "caught"),
    "as good a number": ("42", "43", RIGHT, "NOT CAUGHT"),
    "a loop": ("42", "0", RIGHT, "caught"),
    "another text": ("41", "42", RIGHT, "does not apply"),
    "a text twice": ("n", "m", RIGHT, "does not apply"),
    "no Python": ("42", "4 2", RIGHT, "does not run"),
    "a red test": ("42", "43", "test_answer.py::test_red", "red without the fault"),
}


@pytest.mark.slow
def test_the_verdict_on_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(try_faults, "TEST_SECONDS", 1)
    files = {"answer.py": ANSWER, "test_answer.py": TESTS}
    files |= {"tools/faster_imports.py": "", "tests/notebooks/nbstrict.py": ""}  # as options name
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in ("init -q", "add ."):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    faults = [Fault(what, "answer.py", *parts) for what, (*parts, _) in VERDICTS.items()]
    found = try_faults.try_all(faults, workers=2, root=tmp_path)
    assert dict(zip(VERDICTS, found, strict=True)) == {
        what: verdict for what, (*_, verdict) in VERDICTS.items()
    }
    assert (tmp_path / "answer.py").read_text() == ANSWER
