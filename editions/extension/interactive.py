"""Interactive figures: a box that a script of editions/static/interactive/ fills."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from editions.interactive import TOLD

SCRIPTS = ["norms.js", "svg.js"]  # every figure needs them; its own script comes last
FOLDER = Path(__file__).parents[1] / "static" / "interactive"


class interactive(nodes.Element):
    """Words, and the box of a figure."""


def figure_name(argument: str) -> str:
    known = sorted(path.stem for path in FOLDER.glob("*.js") if path.name not in SCRIPTS)
    return directives.choice(argument, known)


class Interactive(SphinxDirective):
    required_arguments = 1
    has_content = True
    option_spec: ClassVar = dict.fromkeys(TOLD, directives.unchanged_required)

    def run(self):
        figure = interactive(figure=figure_name(self.arguments[0]), **self.options)
        self.state.nested_parse(self.content, self.content_offset, figure)
        return [figure]


def box(given: Mapping[str, str]) -> str:
    """What the script of the figure fills, and what stands there without one."""
    data = " ".join(f'data-{key}="{escape(value)}"' for key, value in given.items())
    without = "<noscript>This figure needs JavaScript.</noscript>"
    return f'<div class="interactive" {data}></div>\n{without}'


def visit(self, node):
    self.body.append('<div class="interactive-box">\n')


def depart(self, node):
    given = {key: node[key] for key in ("figure", *TOLD) if key in node}
    self.body.append(f"{box(given)}</div>\n")


def add_scripts(app, pagename, templatename, context, doctree):
    """Only pages with such a figure load its scripts and its style."""
    if doctree is None:
        return
    figures = sorted({node["figure"] for node in doctree.findall(interactive)})
    if not figures:
        return
    app.add_css_file("interactive/marks.css")
    for script in [*SCRIPTS, *(f"{figure}.js" for figure in figures)]:
        app.add_js_file(f"interactive/{script}", loading_method="defer")


def setup(app):
    app.add_directive("interactive", Interactive)
    app.add_node(interactive, html=(visit, depart))
    app.connect("html-page-context", add_scripts)
