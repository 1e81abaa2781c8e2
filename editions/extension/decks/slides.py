"""From sections to slides: what comes at a click, one slide after the other, links to the cells."""

from html import escape

from docutils import nodes

from editions.extension.cells import anchor
from editions.extension.decks import columns
from editions.extension.decks.lesson import deck_of, is_deck, is_own, lesson_name
from editions.extension.interactive import SCRIPTS, interactive


class speaker_notes(nodes.General, nodes.Element):
    """What the lecturer says, and for how many minutes the slide stands."""


class mine(nodes.General, nodes.Element):
    """The slide is the lecturer's own; inside it the logo, if there is one."""


class slide(nodes.General, nodes.Element):
    """A section of a deck. It holds no other slide."""


class beside(nodes.General, nodes.Element):
    """Between the two columns of a slide."""


class begins(nodes.General, nodes.Element):
    """Here a point of the plan begins."""


def own(section: nodes.section) -> list[nodes.Node]:
    """What stands on the slide of a section, without the sections inside it."""
    return [part for part in section.children if not isinstance(part, nodes.section)]


def cells_of(section: nodes.section) -> list[str]:
    """The cells that the slide takes something from, in its order."""
    parts = [part for child in own(section) for part in child.findall(nodes.Element)]
    return list(dict.fromkeys(part["cell"] for part in parts if part.get("cell")))


def is_mine(section: nodes.section) -> bool:
    return any(isinstance(part, mine) for part in own(section))


def is_then(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "fragment" in node["classes"]


def fold_after_then(section: nodes.section) -> None:
    """What follows a {then} or {answer} goes into its box, up to the next one, or a new column."""
    box = None
    for part in own(section):
        if is_then(part):
            box = part
        elif isinstance(part, beside):
            box = None
        elif box is not None and not of_the_slide(part):
            section.remove(part)
            box += part


def of_the_slide(part: nodes.Node) -> bool:
    """Notes, sources, marks and the plan's points belong to the slide, and not to its words."""
    return isinstance(part, speaker_notes | begins | mine) or is_sources(part)


def is_sources(part: nodes.Node) -> bool:
    return isinstance(part, nodes.container) and part["classes"] == ["sources"]


def fold(app, doctree):
    if is_deck(app.env.docname):
        for section in doctree.findall(nodes.section):
            fold_after_then(section)


def set_large(doctree) -> None:
    """A fraction in a sentence is as large as one between two paragraphs: a room has to read it."""
    for formula in doctree.findall(nodes.math):
        latex = formula.astext().replace(r"\frac", r"\dfrac")
        formula[:] = [nodes.Text(latex)]


def flatten(app, doctree, docname):
    """Sections inside one another become slides, each with a link to its first cell."""
    if not is_deck(docname):
        return
    set_large(doctree)
    sections = list(doctree.findall(nodes.section))
    slides = [slide_of(section, doctree, app, docname) for section in sections]
    for made, foot in zip(slides[:-1], feet(app.env, sections), strict=False):
        made += foot
    if any(cells_of(section) or not is_mine(section) for section in sections):
        slides[-1] += html(licence(app.config, is_own(docname)))
    doctree[:] = slides


def feet(env, sections: list[nodes.section]) -> list[list[nodes.raw]]:
    """For each slide where the room is in the plan of the deck in which the slide is written."""
    points: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    begun = []
    for section in sections:
        deck = deck_of(env, section)
        names = points.setdefault(deck, [])
        for part in own(section):
            if isinstance(part, begins):
                last[deck] = part["name"]
                names += [] if part["name"] in names else [part["name"]]
        begun.append(None if is_mine(section) else last.get(deck))
    return [
        [html(where(points[deck_of(env, section)], now))] if now else []
        for section, now in zip(sections, begun, strict=True)
    ]


def where(points: list[str], now: str) -> str:
    """The points of the plan at the foot of the slide, with the one that the room is at."""
    items = [
        f"<b>{escape(point)}</b>" if point == now else f"<span>{escape(point)}</span>"
        for point in points
    ]
    return f'<p class="where">{" · ".join(items)}</p>'


def slide_of(section: nodes.section, doctree, app, docname: str) -> slide:
    level = 1 if section.parent is doctree else 2
    title, *parts = own(section)
    minutes = sum(part["minutes"] for part in parts if isinstance(part, speaker_notes))
    made = slide(ids=section["ids"][:1], minutes=minutes, first=level == 1, mine=is_mine(section))
    made += [html(f"<h{level}>"), *title.children, html(f"</h{level}>")]
    made += body([part for part in parts if not of_the_slide(part)])
    made += [part for part in parts if of_the_slide(part) and not isinstance(part, begins | mine)]
    made += [picture for part in parts if isinstance(part, mine) for picture in part.children]
    for cell in cells_of(section)[:1]:
        lesson = lesson_name(app.env, deck_of(app.env, section))
        page = app.builder.get_relative_uri(docname, lesson)
        about = f'data-cell="{cell}" data-notebook="{lesson}.ipynb"'
        address = f'href="{page}#{anchor(cell)}" target="lesson"'
        made += html(f'<a class="cell" {address} {about}>{cell}</a>')
    return made


def body(parts: list[nodes.Node]) -> list[nodes.Node]:
    """What the slide shows between its heading and its foot, in one column or in two."""
    marker = next((part for part in parts if isinstance(part, beside)), None)
    if marker is None:
        return [html('<div class="body">'), *column(parts, columns.WIDTH), html("</div>")]
    place = parts.index(marker)
    left, right = columns.widths(marker["percent"])
    return [
        html('<div class="body">'),
        *column(parts[:place], left),
        *column(parts[place + 1 :], right),
        html("</div>"),
    ]


def column(parts: list[nodes.Node], width: float) -> list[nodes.Node]:
    return [html(f'<div style="width:{width:.0f}px">'), *parts, html("</div>")]


def licence(config, partly: bool) -> str:
    """Who may do what with the deck, or with a part of it, at the foot of its last slide."""
    about = config.html_context
    link = f'<a rel="license" href="{about["licence_address"]}">{about["licence"]}</a>'
    whose = "The slides of the course: ©" if partly else "©"
    return f'<p class="licence">{whose} {escape(config.copyright)}. {link}</p>'


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def visit_slide(self, node):
    seconds = round(60 * node["minutes"])
    kinds = [name for name in ("first", "mine") if node[name]]
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    self.body.append(f'<section id="{node["ids"][0]}" data-timing="{seconds}"{kind}>\n')


def visit_notes(self, node):
    self.body.append(f'<aside class="notes"><p>{node["minutes"]:g} min</p>\n')


def closes(name: str):
    return lambda self, node: self.body.append(f"</{name}>\n")


def template(app, docname, _, context, doctree):
    if not is_deck(docname):
        return None
    figures = {node["figure"] for node in doctree.findall(interactive)}
    context["figures"] = [*SCRIPTS, *(f"{name}.js" for name in sorted(figures))] if figures else []
    return "deck.html"


def setup(app):
    app.add_node(slide, html=(visit_slide, closes("section")))
    app.add_node(speaker_notes, html=(visit_notes, closes("aside")))
    app.connect("doctree-read", fold, priority=800)
    app.connect("doctree-resolved", flatten)
    app.connect("html-page-context", template)
