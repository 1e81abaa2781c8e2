"""What a change to one lesson can turn red: `pytest -p tests.one_lesson --lesson 03a`.

The lesson and its solution, the tests of its checks, the rules for its notebooks, and the pages
that are made of all lessons. `make test LESSON=03a` does it; the rest of `make test` follows before
a commit.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LESSONS = {path.name.split("_")[0]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]*.ipynb")}
# at the beginning of a test's parameters: tests/equations/test_lines.py::test[solutions/04 ex1]
NUMBER = re.compile(r"\[(?:solutions/)?(\d\d[a-z]?) ")
# Of these the tests whose names hold the lesson's
BY_LESSON = [
    "tests/course/test_checks.py",
    "tests/equations/test_equations.py",
    "tests/notebooks/test_exercise_rules.py",
    "tests/notebooks/test_notebooks.py",
    "tests/test_deck_formulas.py",
    "tests/test_decks.py",
    "tests/test_exercise_sheets.py",
]
WHOLE = [  # quick, and about all lessons at once
    "tests/equations/test_lines.py",
    "tests/notebooks/test_reported_rules.py",
    "tests/test_claims_page.py",
    "tests/test_course_map.py",
    "tests/test_derivations.py",
    "tests/test_glossary.py",
    "tests/test_links.py",
    "tests/test_made_pages.py",
    "tests/test_pages.py",
    "tests/test_readme.py",
    "tests/test_sources_page.py",
]


def pytest_addoption(parser):
    parser.addoption("--lesson", required=True, help="number and letter, such as 03 or 03a")


def pytest_configure(config):
    lesson = config.option.lesson
    if lesson not in LESSONS:
        known = ", ".join(sorted(LESSONS))
        raise pytest.UsageError(f"there is no lesson {lesson}; there are {known}")
    config.args = files(LESSONS[lesson])


def files(lesson: Path) -> list[str]:
    """What is collected, from the project's root."""
    notebooks = [f"notebooks/{lesson.name}", f"notebooks/solutions/{lesson.name}"]
    return [*notebooks, *tests_of_checks(lesson), *BY_LESSON, *WHOLE]


def tests_of_checks(lesson: Path) -> list[str]:
    """The files with wrong answers to this lesson's exercises, by what they load or import."""
    subject = lesson.stem.partition("_")[2]
    mention = re.compile(rf'"{lesson.stem}"|checks import {subject}\b')
    tests = sorted((ROOT / "tests/course").glob("test_checks_*.py"))
    found = [path for path in tests if mention.search(path.read_text("utf-8"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def pytest_collection_modifyitems(config, items):
    here = [item for item in items if is_about(config.option.lesson, item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in here])
    items[:] = here


def is_about(lesson: str, item) -> bool:
    """Of the files in BY_LESSON what names this lesson, of the others what names no other one."""
    if _file(item) in BY_LESSON:
        return LESSONS[lesson].stem in item.nodeid
    named = NUMBER.search(item.nodeid)
    return named is None or named[1] == lesson


def _file(item) -> str:
    return item.nodeid.split("::")[0]
