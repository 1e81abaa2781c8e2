"""The Sphinx extension of both editions: what the pages of the course need beyond myst-nb.

A part is a module with a `setup(app)`.
"""

from editions.extension import cells, code, decks, formulas, interactive, library, pages, papers

PARTS = [formulas, code, cells, interactive, library, pages, papers, decks]


def setup(app):
    for part in PARTS:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
