"""Faults planted in a small course: the build names every one of them, with its place."""

import json
import shutil

import pytest

from editions import colab
from editions.interactive import faults
from tests.editions.conftest import ROOT
from tools import browser_libraries, web

LESSON = "02b_other_axes"
REPOSITORY = "somebody/normlib"
# Put together, or the tests of the equations would take them for tags that these tests cite.
KNOWS = "EQ" + "-NOBODY-KNOWS"
THERE = "EQ" + "-NOT-THERE"
MISSING = "EQ" + "-MISSING"


def plant(path, cell, words):
    """Add words to a Markdown cell, and say which line they are in."""
    stored = json.loads(path.read_text("utf-8"))
    target = next(each for each in stored["cells"] if each["id"] == cell)
    text = "".join(target["source"]).rstrip("\n")
    target["source"] = f"{text}\n\n{words}"
    path.write_text(json.dumps(stored), "utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder, and what the build says of one lesson with seven faults and two pages with one."""
    notebooks = tmp_path_factory.mktemp("course") / "notebooks"
    shutil.copytree(ROOT / "notebooks" / "reference", notebooks / "reference")
    (notebooks / "solutions").mkdir()
    for name in (LESSON, f"solutions/{LESSON}"):
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", notebooks / f"{name}.ipynb")
    lesson = notebooks / f"{LESSON}.ipynb"
    plant(lesson, "title", f"The tag {KNOWS} in a sentence.")
    plant(lesson, "title", f"**[{THERE}]**\n$$\nx\n$$")
    plant(lesson, "remember", "[a page](reference/nowhere.md)")
    plant(lesson, "remember", "[a claim](reference/claims.md#A999)")
    plant(lesson, "remember", "![a picture](reference/nothing.png)")
    plant(lesson, "remember", r"A formula $\frac{1$ that is not closed.")
    plant(lesson, "axes-read", "$$\n\\nosuchcommand x\n$$")
    terms = notebooks / "reference" / "glossary.md"
    terms.write_text(terms.read_text("utf-8") + f"\nSee {MISSING}.\n", "utf-8")
    # a formula that a docstring of the library cites
    equations = notebooks / "reference" / "equations.md"
    equations.write_text(equations.read_text("utf-8").replace("### EQ-ISRU ", "### "), "utf-8")
    citation = notebooks.parent / "CITATION.cff"
    citation.write_text(f'repository-code: "https://github.com/{REPOSITORY}"\n', "utf-8")
    return notebooks.parent, "\n".join(
        web.build(notebooks, notebooks.parent / "build", citation=citation)
    )


@pytest.fixture(scope="module")
def complaints(built):
    return built[1]


def test_a_lesson_has_a_button_for_colab_where_the_citation_names_the_repository(built):
    pages = built[0] / "build" / "web"
    button = f'<a class="colab" href="{colab.lesson(REPOSITORY, LESSON)}">'
    assert button in (pages / f"{LESSON}.html").read_text("utf-8")
    assert 'class="colab"' not in (pages / "solutions" / f"{LESSON}.html").read_text("utf-8")


@pytest.mark.parametrize(
    "named",
    [
        KNOWS,
        THERE,
        MISSING,
        "reference/nowhere.md",
        "A999",
        "reference/nothing.png",
        "docstring of normlib.functional.pointwise.isru",
    ],
)
def test_each_fault_is_named(complaints, named):
    assert named.lower() in complaints.lower()


@pytest.mark.parametrize(
    ("named", "cell"),
    [(KNOWS.lower(), "title"), (r"\frac{1", "remember"), (r"\nosuchcommand", "axes-read")],
)
def test_a_fault_is_named_with_its_cell(complaints, named, cell):
    (line,) = [line for line in complaints.splitlines() if named in line]
    assert line.startswith(f"notebooks/{LESSON}.ipynb, cell {cell}, line ")


def test_a_figure_after_a_cell_that_is_gone_is_a_fault(tmp_path):
    named = "\n".join(faults(tmp_path))
    assert "interactive.yaml: there is no notebook 02_layer_norm" in named
    empty = {"cells": [{"id": "other", "cell_type": "markdown", "source": []}]}
    (tmp_path / "02_layer_norm.ipynb").write_text(json.dumps(empty))
    assert "02_layer_norm.ipynb has no cell" in "\n".join(faults(tmp_path))


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Libraries that were never fetched."""
    monkeypatch.setattr(browser_libraries, "FOLDER", tmp_path)
    monkeypatch.setattr(browser_libraries, "STAMP", tmp_path / "fetched.json")


@pytest.mark.parametrize("missing", ["node", "npm"])
def test_without_node_or_npm_one_line_says_so(fresh, monkeypatch, missing):
    monkeypatch.setattr(
        browser_libraries.shutil, "which", {"node": "n", "npm": "n", missing: None}.get
    )
    with pytest.raises(
        SystemExit, match=rf"^{missing} is missing; .*: install Node\.js with npm\.$"
    ):
        browser_libraries.fetch_libraries()


def test_without_a_network_one_line_says_so(fresh, monkeypatch):
    monkeypatch.setattr(browser_libraries.shutil, "which", lambda name: "false")
    with pytest.raises(SystemExit, match=r"^npm could not fetch katex@.* \(is there a network\?\)"):
        browser_libraries.fetch_libraries()


def test_another_package_than_the_tested_one_is_refused(tmp_path):
    package = tmp_path / "katex.tgz"
    package.write_bytes(b"something else")
    with pytest.raises(SystemExit, match=r"katex has the checksum .* so it is not used"):
        browser_libraries.check_sum("katex", package, "0" * 64)
