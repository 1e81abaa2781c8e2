"""The pages for who works on it: what they name is there, and what is said twice agrees."""

import re
import tomllib
from pathlib import Path

import yaml

from editions import moved, prepare
from editions.interactive import faults

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def section(page, heading):
    (text,) = re.findall(rf"^##+ {heading}\n(.+?)(?=^## |\Z)", page, re.M | re.S)
    return text


def test_where_things_are_names_files_and_what_is_in_them():
    places = re.findall(
        r"`([\w./]+/[\w.]*)(?:: (\w+))?`", section(CONTRIBUTING, "Where things are")
    )
    assert len(places) > 20
    for path, name in places:
        assert (ROOT / path).exists(), f"{path} is not there"
        if name:
            text = (ROOT / path).read_text("utf-8")
            defined = re.search(rf"^(?:def |class )?{name}\b", text, re.M)
            assert defined, f"{path} defines no {name}"


def test_the_version_is_said_once():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[(\d.+?)\] - (\S+)", changelog, re.M)
    assert released[0] == (PROJECT["version"], str(citation["date-released"]))


def test_the_hook_before_a_commit_is_make_check():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (repository,) = config["repos"]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local", "nothing is downloaded"
    assert (hook["entry"], hook["language"]) == ("make check", "system")


def test_the_form_asks_for_lesson_cell_and_torch():
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/lesson.yml").read_text("utf-8"))
    needed = {field["id"] for field in form["body"] if field.get("validations", {}).get("required")}
    assert {"lesson", "cell", "torch"} <= needed


def test_interactive_figures_stand_after_cells_that_exist():
    assert faults(ROOT / "notebooks") == []


def test_the_address_of_a_lesson_that_is_gone_leads_to_the_lessons_with_its_subject(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(moved, "MOVED", {"01_a": ("02b", "03"), "02b_b": ("02b",), "04_d": ("99",)})
    for folder in ("notebooks", "notebooks/solutions"):
        (tmp_path / folder).mkdir()
        for name in ("02b_b", "03_c"):
            (tmp_path / folder / f"{name}.ipynb").write_text('{"cells": []}', "utf-8")
    assert moved.goals("01_a", tmp_path / "notebooks") == ["02b_b", "03_c"]
    prepare.prepare_moved(tmp_path / "web", tmp_path / "notebooks")
    made = {str(path.relative_to(tmp_path / "web")) for path in (tmp_path / "web").rglob("*.md")}
    assert made == {"01_a.md", "solutions/01_a.md"}
    for name in made:
        page = (tmp_path / "web" / name).read_text("utf-8")
        assert re.findall(r"\]\((.+?)\)", page) == ["02b_b.ipynb", "03_c.ipynb"]
