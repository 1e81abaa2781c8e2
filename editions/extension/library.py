"""The pages of the library: autodoc and napoleon read the docstrings of normlib.

In a docstring no sign is markup. A paragraph of tags stands for their formulas, lines indented by
four columns are shown as they are.
"""

import re
from pathlib import Path

from editions.equations import equations, label
from editions.papers import ARXIV, by_id
from editions.prepare import ROOMS
from normcourse.lesson import TAG

SECTION = re.compile(r"^(Args|Returns|Raises|Source): *", re.M)
TAGS = re.compile(rf"(?:\[{TAG}\]\s*)+")
MARKUP = re.compile(r"[\\*`|]|_(?!\w)")
NAME = re.compile(
    rf"(?<![\w.-])(?:(?:{'|'.join(ROOMS)})\.[A-Za-z]\w*|{TAG}|arXiv {ARXIV.pattern})(?![\w-])"
)
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.S)
LIST = re.compile(r"<(/?)d[ld]>")


def restyle(app, what, name, obj, options, lines):
    """A docstring as napoleon takes it, in place."""
    known = equations(Path(app.config.course_notebooks, "reference", "equations.md"))
    parts = "\n".join(lines).rstrip().split("\n\n")
    lines[:] = "\n\n".join(restructured(part, known) for part in parts).split("\n")
    lines.append("")


def restructured(part, known):
    """A part of a docstring between two blank lines as reStructuredText."""
    if TAGS.fullmatch(part):
        return "\n\n".join(stated(tag, known) for tag in re.findall(TAG, part))
    if part.startswith("    "):
        return f".. code-block:: text\n\n{part}"
    if part.startswith(">>> "):
        return part
    words = MARKUP.sub(r"\\\g<0>", SECTION.sub(r"\n\1:\n    ", part))
    return NAME.sub(lambda found: link(found[0]), words)


def stated(tag, known):
    """A link to the equation, of which Sphinx complains if it is not there, and its formula."""
    above = f".. container:: stated\n\n   {link(tag)}"
    if tag not in known:
        return above
    formula = known[tag].latex.replace("\n", "\n   ")
    return f"{above}\n\n.. math::\n\n   {formula}"


def link(name: str) -> str:
    if re.fullmatch(TAG, name):
        return f":ref:`{name} <{label(name)}>`"
    if paper := by_id().get(name.removeprefix("arXiv ")):
        return f"`{name} <{paper.address}>`__"
    return f":py:obj:`{name} <normlib.{name}>`"


def with_colons(app, what, name, obj, options, lines):
    """Napoleon puts two hyphens between an argument and what it is."""
    lines[:] = [line.replace("** -- ", "**: ", 1) for line in lines]


def spoken_signature(app, pagename, templatename, context, doctree):
    """Sphinx writes arguments as definitions without terms; a screen reader wants lines."""
    body = context.get("body", "")
    context["body"] = SIGNATURE.sub(lambda found: LIST.sub(r"<\1span>", found[0]), body)


def setup(app):
    app.setup_extension("sphinx.ext.viewcode")
    app.setup_extension("sphinx.ext.napoleon")  # with autodoc
    app.connect("autodoc-process-docstring", restyle, priority=400)
    app.connect("html-page-context", spoken_signature)
    app.connect("autodoc-process-docstring", with_colons, priority=600)  # napoleon has 500
