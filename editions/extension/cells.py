"""Cells on a page have names as anchors, pictures with alt texts, and folds.

A fold hides the code that draws, the answers of predictions, and the section Evidence.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from editions.predictions import COMMIT
from normcourse.lesson import EVIDENCE, Notebook, answers, number_of_answer

log = logging.getLogger(__name__)
CODE = "Show the code"
CONTROLS = "Claims and their controls, records, sources"
IMPORTS = "Show the imports and settings"
RECORD = re.compile(r"(?:.*-)?records?(?:-.*)?")  # a cell that reads or tries what is stored
SHORT = 3  # lines; a longer output may be a table,
COLUMNS = re.compile(r"\S {2,}\S")  # whose columns stand below each other


class cell_start(nodes.Element):
    """Where a Markdown cell begins."""


class fold(nodes.Element):
    """Closed until the reader opens it."""


class spoken_already(nodes.Element):
    """A caption that repeats the alt text: seen, but not said twice by a screen reader."""


class CellStart(SphinxDirective):
    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        return [cell_start(cell=name, ids=[anchor(name)])]


def anchor(cell: str) -> str:
    return f"cell-{cell}"


def is_code_cell(node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def is_mime_bundle(node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def finish(app, doctree):
    """After the page was read: the cells as a reader on the web needs them."""
    path = original(app.env)
    if not path.is_file():
        return
    app.env.note_dependency(str(path))
    notebook = Notebook(path)
    for cell in list(doctree.findall(is_code_cell)):
        name = cell["cell_metadata"]["cell_id"]
        cell["ids"].append(anchor(name))
        describe_pictures(cell, notebook.cell(name).pictures)
        mark_captions(cell, notebook.cell(name).captions)
        fold_code(cell, name)
        mark_wrapped(cell)
    fold_answers(doctree)
    fold_evidence(doctree)


def original(env) -> Path:
    """The notebook as it stands in the repository."""
    return Path(env.config.course_notebooks, f"{env.docname}.ipynb")


def describe_pictures(cell, pictures) -> None:
    """myst-nb writes a file name as alt text: it does not read the output's metadata."""
    images = list(cell.findall(nodes.image))
    for image, picture in zip(images, pictures, strict=True):
        image["alt"] = picture.alt
        image["width"] = f"{picture.width}px"


def mark_captions(cell, captions: list[bool]) -> None:
    if not any(captions):
        return
    output = cell.children[-1]
    for part, is_caption in zip(list(output.children), captions, strict=True):
        if is_caption:
            wrap([part], spoken_already())


def fold_code(cell, name: str) -> None:
    """Code that draws or loads, by its tag; the imports of a lesson; what looks after records."""
    tagged = cell.attributes.pop("hide_mode", None)
    if tagged or name == "setup" or RECORD.fullmatch(name):
        summary = IMPORTS if name == "setup" else CODE
        wrap([cell.children[0]], fold(summary=summary, classes=["code"]))


def mark_wrapped(cell) -> None:
    """The line of a check, or sentences: they are wrapped where they are too long, not cut."""
    for output in cell.children[1:]:
        for block in output.findall(nodes.literal_block):
            text = block.astext().strip()
            if text.count("\n") < SHORT or not COLUMNS.search(text):
                block["classes"].append("wrapped")


def fold_answers(doctree) -> None:
    """The answer of a prediction, and all that follows up to the words that read it: one fold."""
    parents = {id(cell.parent): cell.parent for cell in doctree.findall(is_answer)}
    for parent in parents.values():
        for group in answers_in(parent):
            wrap(group, fold(summary=COMMIT, classes=["answer"]))


def fold_evidence(doctree) -> None:
    for section in list(doctree.findall(nodes.section)):
        title, *rest = section.children
        if title.astext() == EVIDENCE and rest:
            wrap(rest, fold(summary=CONTROLS, classes=["evidence"]))


def is_answer(node) -> bool:
    return number_of_answer(cell_name(node)) is not None


def cell_name(node) -> str | None:
    """The name of the cell that begins with this node."""
    if isinstance(node, cell_start):
        return node["cell"]
    if is_code_cell(node):
        return node["cell_metadata"]["cell_id"]
    return None


def answers_in(parent) -> list[list[nodes.Node]]:
    """The children that belong to answers: for each number, from its first cell to its last."""
    starts = [place for place, child in enumerate(parent.children) if starts_something(child)]
    ends = [*starts[1:], len(parent.children)]
    names = [cell_name(parent.children[start]) for start in starts]
    return [parent.children[starts[span[0]] : ends[span[-1]]] for span in answers(names)]


def starts_something(node) -> bool:
    return cell_name(node) is not None or isinstance(node, nodes.section)


def wrap(group: list[nodes.Node], box: nodes.Element) -> None:
    """Put neighbours into a box that stands where they stood."""
    parent = group[0].parent
    place = parent.index(group[0])
    for node in group:
        parent.remove(node)
        box += node
    parent.insert(place, box)


def visit_cell_start(self, node):
    self.body.append(self.starttag(node, "span", "", CLASS="cell-start") + "</span>\n")


def visit_fold(self, node):
    classes = " ".join(["fold", *node["classes"]])
    self.body.append(f'<details class="{classes}"><summary>{node["summary"]}</summary>\n')


def visit_spoken_already(self, node):
    self.body.append('<div class="caption-of-picture" aria-hidden="true">\n')


def closes(tag: str):
    return lambda self, node: self.body.append(tag)


def setup(app):
    app.add_config_value("course_notebooks", "", "env")
    app.add_directive("cell-start", CellStart)
    app.add_node(cell_start, html=(visit_cell_start, closes("")))
    app.add_node(fold, html=(visit_fold, closes("</details>\n")))
    app.add_node(spoken_already, html=(visit_spoken_already, closes("</div>\n")))
    app.connect("doctree-read", finish)
