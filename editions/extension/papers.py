"""A link to a paper of the register has a title: who wrote it when, and what it is called."""

from docutils import nodes

from editions.papers import by_address


def name_papers(app, doctree):
    known = by_address()
    for link in doctree.findall(nodes.reference):
        paper = known.get(link.get("refuri"))
        if paper:
            link["reftitle"] = f"{paper.cited}: {paper.title}"


def setup(app):
    app.connect("doctree-read", name_papers)
