"""From sections to slides: what comes at a click, one slide after the other, links to the cells."""

from html import escape

from docutils import nodes

from editions.extension.cells import anchor
from editions.extension.decks.lesson import lesson_name


class speaker_notes(nodes.General, nodes.Element):
    """What the lecturer says, and for how many minutes the slide stands."""


class slide(nodes.General, nodes.Element):
    """A section of a deck. It holds no other slide."""


def own(section: nodes.section) -> list[nodes.Node]:
    """What stands on the slide of a section, without the sections inside it."""
    return [part for part in section.children if not isinstance(part, nodes.section)]


def cells_of(section: nodes.section) -> list[str]:
    """The cells that the slide takes something from, in its order."""
    parts = [part for child in own(section) for part in child.findall(nodes.Element)]
    return list(dict.fromkeys(part["cell"] for part in parts if part.get("cell")))


def is_then(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node["classes"] == ["fragment"]


def fold_after_then(section: nodes.section) -> None:
    """What follows a {then} goes into its box, up to the next one; notes stay where they are."""
    box = None
    for part in own(section):
        if is_then(part):
            box = part
        elif box is not None and not isinstance(part, speaker_notes):
            section.remove(part)
            box += part


def fold(app, doctree):
    if lesson_name(app.env.docname):
        for section in doctree.findall(nodes.section):
            fold_after_then(section)


def flatten(app, doctree, docname):
    """Sections inside one another become slides, each with a link to its first cell."""
    lesson = lesson_name(docname)
    if lesson is None:
        return
    page = app.builder.get_relative_uri(docname, lesson)
    sections = list(doctree.findall(nodes.section))
    doctree[:] = [slide_of(section, doctree, page, lesson) for section in sections]
    doctree[-1] += html(licence(app.config))


def slide_of(section: nodes.section, doctree, page: str, lesson: str) -> slide:
    level = 1 if section.parent is doctree else 2
    parts = own(section)
    cells = cells_of(section)
    minutes = sum(part["minutes"] for part in parts if isinstance(part, speaker_notes))
    made = slide(ids=section["ids"][:1], minutes=minutes, first=level == 1)
    for part in parts:
        if isinstance(part, nodes.title):
            made += [html(f"<h{level}>"), *part.children, html(f"</h{level}>")]
        else:
            made += part
    for cell in cells[:1]:
        about = f'data-cell="{cell}" data-notebook="{lesson}.ipynb"'
        address = f'href="{page}#{anchor(cell)}" target="lesson"'
        made += html(f'<a class="cell" {address} {about}>{cell}</a>')
    return made


def licence(config) -> str:
    """Who may do what with the deck, at the foot of its last slide."""
    about = config.html_context
    link = f'<a rel="license" href="{about["licence_address"]}">{about["licence"]}</a>'
    return f'<p class="licence">© {escape(config.copyright)}. {link}</p>'


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def visit_slide(self, node):
    seconds = round(60 * node["minutes"])
    kind = ' class="first"' if node["first"] else ""
    self.body.append(f'<section id="{node["ids"][0]}" data-timing="{seconds}"{kind}>\n')


def visit_notes(self, node):
    self.body.append(f'<aside class="notes"><p>{node["minutes"]:g} min</p>\n')


def closes(name: str):
    return lambda self, node: self.body.append(f"</{name}>\n")


def template(app, docname, *_):
    return "deck.html" if lesson_name(docname) else None


def setup(app):
    app.add_node(slide, html=(visit_slide, closes("section")))
    app.add_node(speaker_notes, html=(visit_notes, closes("aside")))
    app.connect("doctree-read", fold, priority=800)
    app.connect("doctree-resolved", flatten)
    app.connect("html-page-context", template)
