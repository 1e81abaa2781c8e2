"""The README is true.

Its picture is the lesson's, its table has the lessons there are, and its links lead somewhere.
"""

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from normcourse.lesson import Notebook
from tests.failing import fail, fail_if_any, said
from tests.planting import plant
from tools import hero, minutes, reference

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
LESSONS = list(reference.lessons().values())


def test_the_picture_has_the_alt_text_of_the_lesson():
    alt = hero.figure().alt
    if f"![{alt}](notebooks/reference/hero.png)" not in README:
        fail("README.md", f"the picture's alt text is not the lesson's, {alt!r}", edit="the README")


def question(path):
    """What the title of a lesson asks: "02 · LayerNorm: what if …?" asks "What if …?"."""
    asked = Notebook(path).title.partition(" · ")[2].rpartition(": ")[2]
    return asked[:1].upper() + asked[1:]


def row_faults(path):
    """What the README's row of a lesson says otherwise than the lesson."""
    number = path.name.partition("_")[0]
    row = next((line for line in README.splitlines() if line.startswith(f"| {number} |")), "")
    cells = [cell.strip() for cell in row.split("|")]
    link = f"[{question(path)}](notebooks/{path.name})"
    time = Notebook(path).minutes
    if not row:
        yield said("README.md", f"the table has no row for {path.name}", edit="the table")
    elif time is None:
        yield said(path, 'the title has no line "**Time:** core … minutes, with the exercises …"')
    else:
        if cells[2] != link:
            what = f"the row says {cells[2]}, and the lesson's title {link}"
            others = "the title of its solution, its heading in notebooks/reference/course_map.md"
            edit = f"the one that is wrong; the same question is in {others}"
            yield said(f"README.md, lesson {number}", what, edit=edit, run="make pages")
        if cells[3] != str(time.whole):
            what = f"the row says {cells[3]} minutes, and the lesson's title {time.whole}"
            yield said(f"README.md, lesson {number}", what, edit="the one that is wrong")


def test_the_table_lists_every_lesson_with_its_question_and_minutes():
    fail_if_any(fault for path in LESSONS for fault in row_faults(path))


@pytest.mark.parametrize(
    ("there", "planted", "message"),
    [
        (r'(# \d\d[a-z]? · [^"\\]+)', r"\1 indeed", "the lesson's title [{question} indeed]"),
        (r"with the exercises \d+", "with the exercises 999", "and the lesson's title 999"),
        (r"\*\*Time:", "Time:", "the title has no line"),
    ],
)
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_title_that_differs_is_named(monkeypatch, path, there, planted, message):
    asked = question(path)
    plant(monkeypatch, [path], lambda text: re.sub(there, planted, text, count=1))
    (found,) = row_faults(path)
    assert message.format(question=asked) in found


def test_the_minutes_that_a_title_states_are_those_computed():
    fail_if_any(filter(None, map(minutes.fault, map(Notebook, LESSONS))))


def test_the_hours_are_those_of_the_lessons():
    hours = re.search(r"about (\d+) hours with their exercises, (\d+) without them", README)
    stated = [lesson.minutes for lesson in map(Notebook, LESSONS) if lesson.number.isdigit()]
    assert abs(sum(time.whole for time in stated) / 60 - int(hours[1])) <= 1
    assert abs(sum(time.core for time in stated) / 60 - int(hours[2])) <= 1


def test_the_question_at_the_head_has_the_numbers_of_lesson_00():
    said = re.search(
        r"of (\d+) layers classifies (\d+)% .+ (\d+) layers .+ drops to (\d+)%", README
    )
    printed = Notebook(ROOT / "notebooks" / "00_why_normalize.ipynb").cell("failure-train").printed
    shown = re.findall(r"(\d+) layers: loss .+, accuracy (\d+)%", printed)
    assert list(said.groups()) == [str(int(number)) for row in shown for number in row]


def test_the_example_runs_as_it_stands_and_prints_what_it_says(capsys):
    (example,) = re.findall(r"^```python\n(.+?)^```", README, re.M | re.S)
    states = "".join(re.findall(r"^print\(.*\n((?:# .*\n)+)", example, re.M))
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    expected = re.sub("^# ", "", states, flags=re.M)
    if printed != expected:
        what = f"the example prints {printed!r}, and the comment below it says {expected!r}"
        fail("README.md, Use the layers", what, edit="the comment")


def test_the_map_names_every_folder_there_is():
    """Each line of the map is a folder or file, and no folder of the houses is left out."""
    (block,) = re.findall(r"^## Map\n\n```\n(.+?)^```", README, re.M | re.S)
    named, house = set(), ""
    for indent, entry in re.findall(r"^( *)(\S+) {2,}\S", block, re.M):
        house = house if indent else entry
        path = house + entry if indent else entry
        assert (ROOT / path).exists(), f"the map names {path}, which is not there"
        named.add(path.rstrip("/"))
    for folder in ("notebooks", "normlib", "normcourse", "tests", "tools"):
        assert folder in named, f"the map leaves out {folder}/"
    for folder in ("normlib", "normcourse"):
        packages = {
            str(path.parent.relative_to(ROOT)) for path in (ROOT / folder).glob("*/__init__.py")
        }
        assert packages <= named, f"the map leaves out {sorted(packages - named)}"


COURSE_MAP = ROOT / "notebooks/reference/course_map.md"


def test_the_course_map_asks_the_same_questions_in_the_same_order():
    rows = re.findall(r"^\| (\d\d[a-z]?) \| \[(.+?)\]\(notebooks/(.+?)\)", README, re.M)
    text = COURSE_MAP.read_text("utf-8")
    headings = re.findall(r"^### (\d\d[a-z]?) · \[(.+?)\]\(\.\./(.+?)\)", text, re.M)
    for row, heading in zip_longest(rows, headings):
        if row != heading:
            what = f"the README's table has {row} where the map has {heading}"
            fail(COURSE_MAP, what, edit="the heading", run="make pages")
    assert [number for number, *_ in rows if number.isdigit()] == [f"{n:02}" for n in range(9)]
