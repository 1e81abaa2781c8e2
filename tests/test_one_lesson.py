"""tests/one_lesson.py finds what belongs to a lesson, and names the lessons that there are."""

from types import SimpleNamespace

import pytest

from tests import one_lesson


@pytest.mark.parametrize("number", one_lesson.LESSONS)
def test_every_file_of_a_lesson_is_there_and_one_with_wrong_answers_among_them(number):
    lesson = one_lesson.LESSONS[number]
    found = one_lesson.files(lesson)
    assert [path for path in found if not (one_lesson.ROOT / path).is_file()] == []
    subject = lesson.stem.partition("_")[2]
    assert f"tests/course/test_checks_{subject}.py" in found


def test_every_test_of_checks_belongs_to_a_lesson():
    found = [one_lesson.tests_of_checks(lesson) for lesson in one_lesson.LESSONS.values()]
    tests = (one_lesson.ROOT / "tests/course").glob("test_checks_*.py")
    assert {path for paths in found for path in paths} == {
        path.relative_to(one_lesson.ROOT).as_posix() for path in tests
    }


def test_of_a_file_about_all_lessons_only_the_tests_of_this_one_are_left():
    dropped = []
    hook = SimpleNamespace(pytest_deselected=lambda items: dropped.extend(items))
    config = SimpleNamespace(option=SimpleNamespace(lesson="03"), hook=hook)
    names = ["03_rms_norm: convert", "03a_rms_norm_in_models: cosine", "04_gradient_derivation"]
    items = [SimpleNamespace(nodeid=f"tests/course/test_checks.py::test[{name}]") for name in names]
    other = SimpleNamespace(nodeid="tests/test_pages.py::test_links")
    items.append(other)
    kept = [items[0], other]
    one_lesson.pytest_collection_modifyitems(config, items)
    assert items == kept and len(dropped) == 2


def test_of_the_files_about_all_lessons_what_is_planted_in_other_ones_is_left_out():
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config = SimpleNamespace(option=SimpleNamespace(lesson="04"), hook=hook)
    names = ["04 why", "solutions/04 ex1", "[0-1]", "04a steps", "solutions/03 ex1"]
    nodes = [f"tests/equations/test_lines.py::test[{name}]" for name in names]
    items = [SimpleNamespace(nodeid=node) for node in nodes]
    one_lesson.pytest_collection_modifyitems(config, items)
    assert [item.nodeid for item in items] == nodes[:3]


def test_an_unknown_lesson_is_refused_with_those_that_there_are():
    config = SimpleNamespace(option=SimpleNamespace(lesson="77"))
    with pytest.raises(pytest.UsageError, match=r"no lesson 77; there are 00, 00a, .*08a"):
        one_lesson.pytest_configure(config)
