"""Tags of equations hold together, in both directions.

They stand in equations.md, in the docstrings of normlib, in tests and in lessons.
"""

import ast
import json
import re
from pathlib import Path

import pytest

from tests.equations import latex

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "notebooks/reference/equations.md"
BLOCKS = latex.blocks(PAGE.read_text("utf-8"))
TAG = re.compile(r"\bEQ(?:-[A-Z0-9]+)+\b")
HOUSES = ["normlib", "normcourse"]
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
    """{dotted name: docstring} of every function and class of both packages.

    The name is the public path.
    """
    found = {}
    for path in sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py")):
        # normlib.gradients for its files
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts[:2])
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[f"{module}.{node.name}"] = ast.get_docstring(node) or ""
    return found


def markdown(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("tag", entries())
def test_an_entry_is_complete(tag):
    fields = entries()[tag]
    assert [name for name, _ in fields] == FIELDS
    assert tag in BLOCKS


def test_code_and_page_name_each_other():
    documented, listed = docstrings(), {}
    for tag, fields in entries().items():
        for name in re.findall(r"^norm(?:lib|course)\S+", dict(fields)["Code"]):
            listed.setdefault(name, set()).add(tag)
    assert set(listed) <= set(documented)
    for name, tags in listed.items():
        assert tags <= set(TAG.findall(documented[name])), name


def test_what_computes_a_value_cites_its_equation():
    for name, text in docstrings().items():
        if re.match(r"normlib\.gradients\.\w+_(backward|jacobian)$", name) and "._" not in name:
            assert re.search(r"\[EQ-[A-Z0-9-]+\]", text), name


@pytest.mark.parametrize("folder", [*HOUSES, "tests"])
def test_no_tag_is_unknown(folder):
    texts = {path: path.read_text("utf-8") for path in (ROOT / folder).rglob("*.py")}
    unknown = {path.name: set(TAG.findall(text)) - set(BLOCKS) for path, text in texts.items()}
    assert not any(unknown.values()), unknown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_lesson_states_equations_in_the_same_characters(path):
    text = markdown(path)
    assert set(TAG.findall(text)) <= set(BLOCKS)
    stated = re.findall(r"^\*\*\[(EQ-[A-Z0-9-]+)\]\*\*\s*\n(\$\$.+?\$\$)", text, re.M | re.S)
    assert len(stated) == len(re.findall(r"^\*\*\[EQ-", text, re.M)), (
        "a tag in bold stands above its formula"
    )
    for tag, shown in stated:
        assert shown == BLOCKS[tag], tag
