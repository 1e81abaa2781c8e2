"""The Sphinx extension of both editions: what the pages of the course need beyond myst-nb.

A part is a module with a `setup(app)`; the decks' part is to be added here.
"""

from editions.extension import cells, formulas, interactive, pages

PARTS = [formulas, cells, interactive, pages]


def setup(app):
    for part in PARTS:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
