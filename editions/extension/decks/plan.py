"""The thread of a deck: its plan, where the room is in it, and what each of its points has come to.

In the head of the deck, `plan:` gives each point a short name and its question.
"""

from difflib import get_close_matches

from docutils import nodes
from sphinx.util import logging

from editions.extension.decks.directives import Part
from editions.extension.decks.lesson import COURSE, Misfit, head_of, here
from editions.extension.decks.slides import begins
from editions.papers import by_id

log = logging.getLogger(__name__)
FOOT = 60  # letters that fit between a slide's number and the name of its cell


def plan_of(env, deck: str) -> dict[str, str]:
    """{short name: question}, from the head of the deck; empty without a plan."""
    return head_of(env, deck).get("plan") or {}


class thread(nodes.General, nodes.Element):
    """The points of the plan, one under the other, each with its name."""


class summary(thread):
    pass


def points(names: list[str], answers: list[nodes.Element]) -> list[nodes.Element]:
    """Each name, and beside it what is said of it."""
    rows = []
    for name, answer in zip(names, answers, strict=True):
        row = nodes.container(classes=["point"])
        row += nodes.paragraph(name, name, classes=["name"])
        row += answer
        rows.append(row)
    return rows


class Plan(Part):
    required_arguments = 0

    def part(self):
        plan = stated(self)
        questions = []
        for question in plan.values():
            answer = nodes.paragraph()
            parsed, _ = self.state.inline_text(question, self.lineno)
            answer += parsed
            questions.append(answer)
        return thread("", *points(list(plan), questions))


class Summary(Part):
    """A list with one answer for each point of the plan, in its order."""

    required_arguments = 0
    has_content = True

    def part(self):
        names = list(stated(self))
        items = list(self.inside(nodes.container()).findall(nodes.list_item))
        if len(items) != len(names):
            raise Misfit(f"{len(items)} answers, but the plan has {len(names)} points: {names}")
        answers = [nodes.container("", *item.children) for item in items]
        return summary("", *points(names, answers))


class Begins(Part):
    """A point of the plan begins on this slide."""

    def part(self, name):
        return begins(name=name)


def stated(part: Part) -> dict[str, str]:
    plan = plan_of(part.env, here(part.env))
    if not plan:
        raise Misfit("the deck's head has no plan: `plan:`, and below it `name: question` lines")
    return plan


class Sources(Part):
    """Where it was published, with links, small at the foot of the slide.

    A paper of the register is named by its id; what the Markdown says comes after these.
    """

    required_arguments = 0
    optional_arguments = 1
    has_content = True

    def part(self, ids=""):
        named = [link_to(id) for id in ids.split()]
        box = nodes.container(classes=["sources"])
        if named:
            line = nodes.paragraph("", "", named[0])
            for link in named[1:]:
                line += [nodes.Text(" · "), link]
            box += line
        return self.inside(box)


def link_to(id: str) -> nodes.reference:
    papers = by_id()
    if id not in papers:
        near = ", ".join(get_close_matches(id, papers, n=3, cutoff=0.5))
        raise Misfit(f"papers.yaml has no {id!r}; near it: {near}")
    paper = papers[id]
    words = f"{paper.cited}, {paper.title}, {paper.place}"
    return nodes.reference("", words, refuri=paper.address)


def check(app, doctree):
    """A plan is shown, kept and summed up; a deck of one's own may take a part of another's."""
    env = app.env
    if not env.docname.startswith(COURSE):
        return
    title = next(doctree.findall(nodes.section))
    names = list(plan_of(env, env.docname))
    begun = [node["name"] for node in doctree.findall(begins)]
    if begun != names:
        log.warning("the plan is %s, and {begins} names %s", names, begun, location=title)
    if not names:
        return
    if len(" · ".join(names)) > FOOT:
        log.warning("the foot has room for %d letters, not for %s", FOOT, names, location=title)
    for kind, directive in ((thread, "plan"), (summary, "summary")):
        count = sum(type(node) is kind for node in doctree.findall(thread))
        if count != 1:
            log.warning("a deck with a plan has one {%s}, not %d", directive, count, location=title)


def visit(self, node):
    self.body.append('<div class="thread">\n')


def depart(self, node):
    self.body.append("</div>\n")


def setup(app):
    for name, part in (("plan", Plan), ("summary", Summary), ("begins", Begins)):
        app.add_directive(name, part)
    app.add_directive("sources", Sources)
    app.add_node(thread, html=(visit, depart))
    app.add_node(summary, html=(visit, depart))
    app.connect("doctree-read", check, priority=900)
