"""Tags hold together: equations.md, the code of every house, lessons and solutions."""

import ast
import re
from pathlib import Path

import pytest

from normcourse.lesson import Notebook
from tests.equations import latex
from tests.failing import fail, fail_if_any, said
from tests.named_things import shown
from tests.planting import in_the_first_cell, one_of_each_folder, plant, python_files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "notebooks/reference/equations.md"
BLOCKS = latex.blocks(PAGE.read_text("utf-8"))
TAG = re.compile(r"\bEQ(?:-[A-Z0-9]+)+\b")
LIBRARY = ["normlib", "normcourse"]
HOUSES = [*LIBRARY, "editions", "tests", "tools"]
NONSENSE = "EQ" + "-NONSENSE"  # put together, or this file would cite it
FIELDS = ["Symbols", "Code", "Source", "The sources had"]
NOTEBOOKS = sorted(
    path for path in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
)


def entries():
    """Tag -> {field: text} of every heading."""
    parts = re.split(r"^### (EQ\S+) — .+$", PAGE.read_text("utf-8"), flags=re.M)
    lines = re.compile(r"^- ([^:]+): (.+)$", re.M)
    return {tag: lines.findall(body) for tag, body in zip(parts[1::2], parts[2::2], strict=True)}


def docstrings():
    """Dotted name -> the docstrings of all functions and classes of this name in a room."""
    found = {}
    for path in sorted(path for house in LIBRARY for path in (ROOT / house).rglob("*.py")):
        # normlib.gradients for its files
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts[:2])
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                found.setdefault(f"{module}.{node.name}", []).append(text)
    return found


@pytest.mark.parametrize("tag", entries())
def test_an_entry_is_complete(tag):
    names = [name for name, _ in entries()[tag]]
    if names != FIELDS:
        fail(f"{shown(PAGE)}, {tag}", f"it has the lines {names}, not {FIELDS}", edit="the entry")
    if tag not in BLOCKS:
        fail(f"{shown(PAGE)}, {tag}", "no formula stands below the heading", edit="the entry")


def names_without_tags():
    """Names under Code that are not there, or whose docstring does not name the equation."""
    documented = docstrings()
    for tag, fields in entries().items():
        for name in re.findall(r"^norm(?:lib|course)\S+", dict(fields).get("Code", "")):
            where = f"{shown(PAGE)}, {tag}"
            if name not in documented:
                yield said(where, f"there is no {name}", edit="its line Code")
            elif tag not in TAG.findall("\n".join(documented[name])):
                yield said(name, f"the docstring does not name {tag}, as {where} says", edit="it")


def test_code_and_page_name_each_other():
    fail_if_any(names_without_tags())


def test_what_computes_a_value_cites_its_equation():
    for name, texts in docstrings().items():
        if re.match(r"normlib\.gradients\.\w+_(backward|jacobian)$", name) and "._" not in name:
            for text in texts:
                if not re.search(r"\[EQ-[A-Z0-9-]+\]", text):
                    fail(name, "the docstring names no equation", edit="it: [EQ-…] on a line")


def unknown_tags():
    """{file: what is said of a tag in it that equations.md does not have}."""
    found = {}
    for path in sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py")):
        unknown = set(TAG.findall(path.read_text("utf-8"))) - set(BLOCKS)
        if unknown:
            what = f"{shown(PAGE)} has no {', '.join(sorted(unknown))}"
            found[path] = said(path, what, edit="the tag, or add the equation")
    return found


def test_no_tag_is_unknown():
    fail_if_any(unknown_tags().values())


def test_an_unknown_tag_is_seen_in_every_file(monkeypatch):
    everywhere = python_files(*HOUSES)
    plant(monkeypatch, everywhere, lambda text: f"{text}\n# [{NONSENSE}]\n")
    found = unknown_tags()
    assert sorted(found) == everywhere
    assert all(NONSENSE in message for message in found.values())


def lesson_faults(path):
    text = Notebook(path).text
    for tag in sorted(set(TAG.findall(text)) - set(BLOCKS)):
        yield said(path, f"{shown(PAGE)} has no {tag}", edit="the tag, or add the equation")
    stated = re.findall(r"^\*\*\[(EQ-[A-Z0-9-]+)\]\*\*\s*\n(\$\$.+?\$\$)", text, re.M | re.S)
    if len(stated) != len(re.findall(r"^\*\*\[EQ-", text, re.M)):
        yield said(path, "a tag in bold has no formula on the next line", edit="the cell")
    for tag, shown_here in stated:
        if tag in BLOCKS and shown_here != BLOCKS[tag]:
            what = f"under {tag} stands {shown_here!r}, and in {shown(PAGE)} {BLOCKS[tag]!r}"
            yield said(path, what, edit="the one that is wrong")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_lesson_states_equations_in_the_same_characters(path):
    fail_if_any(lesson_faults(path))


@pytest.mark.parametrize("path", one_of_each_folder(NOTEBOOKS), ids=shown)
@pytest.mark.parametrize(
    ("planted", "message"),
    [
        (f"See {NONSENSE}.", f"has no {NONSENSE}"),
        ("**[EQ-LN]**", "has no formula on the next line"),
        ("**[EQ-LN]**\n$$\ny = x\n$$", "under EQ-LN stands"),
    ],
)
def test_a_fault_is_seen_in_lessons_and_solutions(monkeypatch, path, planted, message):
    plant(monkeypatch, [path], in_the_first_cell(planted))
    (found,) = lesson_faults(path)
    assert message in found
