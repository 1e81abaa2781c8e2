"""Formulas, set by KaTeX while the pages are written: a reader's browser has nothing to compute.

One process of node sets them all. A formula that KaTeX refuses is a complaint with its place.
"""

import json
import subprocess
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

from editions.equations import equations, label

log = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
KATEX = ROOT / "build" / "libraries" / "node" / "katex.min.js"
SCRIPT = Path(__file__).with_name("formulas.js")


class Refused(Exception):
    """What KaTeX says of a formula that it cannot set."""


class Process:
    """formulas.js: it gets a line for each formula and answers each with a line."""

    def __init__(self):
        pipe = subprocess.PIPE
        command = ["node", str(SCRIPT), str(KATEX)]
        self.node = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")
        assert self.node.stdin is not None
        assert self.node.stdout is not None
        self.questions = self.node.stdin
        self.answers = self.node.stdout

    def ask(self, question: dict) -> dict:
        print(json.dumps(question), file=self.questions, flush=True)
        return json.loads(self.answers.readline())

    def close(self):
        self.questions.close()
        self.answers.close()
        self.node.wait()


@cache
def process() -> Process:
    return Process()


@cache
def typeset(latex: str, display: bool) -> str:
    """The formula as HTML; Refused if KaTeX does not understand it."""
    answer = process().ask({"latex": latex, "display": display})
    if "fault" in answer:
        raise Refused(answer["fault"])
    return answer["html"]


def writes(element: str):
    def visit(self, node):
        latex = node.astext().strip()
        try:
            formula = typeset(latex, element == "div")
        except Refused as fault:
            log.warning("%s in the formula %s", fault, latex, location=placed(node))
            formula = ""
        self.body.append(f'<{element} class="math notranslate">{formula}</{element}>')
        raise nodes.SkipNode

    return visit, None


def placed(node: nodes.Node) -> nodes.Node:
    """The nearest node around a formula that knows its line."""
    while node.line is None and node.parent is not None:
        node = node.parent
    return node


def write_previews(app, exception):
    """A script for each tag: its title and its formula, for when a reader points at the tag."""
    if app.builder.format != "html" or exception is not None:
        return
    page = Path(app.config.course_notebooks, "reference", "equations.md")
    folder = Path(app.outdir, "_static", "formulas")
    folder.mkdir(parents=True, exist_ok=True)
    for tag, entry in equations(page).items():
        try:
            formula = typeset(entry.latex.strip(), True)
        except Refused:
            continue  # its own page has complained
        shown = json.dumps([entry.title, formula], ensure_ascii=False)
        script = f'FORMULAS["{label(tag)}"] = {shown};\n'
        (folder / f"{label(tag)}.js").write_text(script, "utf-8")


def finish(app, exception):
    if process.cache_info().currsize:
        process().close()
        process.cache_clear()


def setup(app):
    app.add_html_math_renderer("katex", writes("span"), writes("div"))
    app.connect("build-finished", write_previews, priority=400)
    app.connect("build-finished", finish)
