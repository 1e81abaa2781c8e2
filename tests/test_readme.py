"""The README's picture is the lesson's,
its table is the lessons there are, its links lead somewhere.
"""

import importlib.util
import re
from pathlib import Path

import minutes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_the_one_that_the_lesson_draws():
    """After a change of the lesson: `python tools/hero.py`, and its alt text into the README."""
    hero = load(ROOT / "tools" / "hero.py")
    png, alt = hero.figure()
    assert hero.PICTURE.read_bytes() == png
    assert f"![{alt}](notebooks/reference/hero.png)" in README


def test_the_table_lists_every_lesson_with_its_question_and_minutes():
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb")):
        number = path.name.partition("_")[0]
        row = next((line for line in README.splitlines() if line.startswith(f"| {number} ")), "")
        assert f"](notebooks/{path.name})" in row, f"README's table has no row for {path.name}"
        stated = minutes.stated(path)
        whole = (
            stated[1] if stated else int(re.findall(r"(\d+) minutes", path.read_text("utf-8"))[0])
        )
        listed = int(row.split("|")[3])
        assert whole == listed, f"{path.name} says {whole} minutes, the README {listed}"


def test_the_minutes_that_a_title_states_are_those_computed():
    faults = [minutes.fault(path) for path in minutes.lessons() if minutes.stated(path)]
    assert not any(faults), faults


def test_the_hours_are_those_of_the_lessons():
    hours = re.search(r"about (\d+) hours with their exercises, (\d+) without them", README)
    main_road = [p for p in minutes.lessons() if p.name.partition("_")[0].isdigit()]
    stated = [minutes.stated(path) for path in main_road]
    assert abs(sum(whole for _, whole in stated) / 60 - int(hours[1])) <= 1
    assert abs(sum(core for core, _ in stated) / 60 - int(hours[2])) <= 1


def test_the_example_runs_and_gives_the_number_beside_it():
    (example,) = re.findall(r"^```python\n(.+?)^```", README, re.M | re.S)
    *lines, last = example.strip().splitlines()
    expression, number = re.fullmatch(r"(.+?)  # (-?[\d.]+) .*", last).groups()
    names = {}
    exec("\n".join(lines), names)
    value = eval(expression, names).item()
    digits = len(number.partition(".")[2])
    assert f"{value:.{digits}f}" == number, f"the README says {number}, the code gives {value}"


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


def test_the_course_map_asks_the_same_questions_in_the_same_order():
    rows = re.findall(r"^\| (\d\d[a-z]?) \| \[(.+?)\]\(notebooks/(.+?)\)", README, re.M)
    course_map = (ROOT / "notebooks/reference/course_map.md").read_text("utf-8")
    assert re.findall(r"^### (\d\d[a-z]?) · \[(.+?)\]\(\.\./(.+?)\)", course_map, re.M) == rows
    assert [number for number, *_ in rows if number.isdigit()] == [f"{n:02}" for n in range(9)]
