"""The interactive figure of a lesson's page on a slide: the same script, as large as the slide."""

from editions.extension.decks.directives import Part
from editions.extension.decks.lesson import Misfit
from editions.extension.interactive import interactive
from editions.interactive import LIST, places, told


class InteractiveOf(Part):
    """The figure that stands on the page behind this cell."""

    def part(self, cell):
        self.lesson.cell(cell)
        figures = places().get(self.lesson.name, [])
        found = [figure for figure in figures if figure["after"] == cell]
        if not found:
            known = [figure["after"] for figure in figures]
            raise Misfit(
                f"{LIST.name} has no figure behind cell {cell}; it has some behind {known}"
            )
        (figure,) = found
        return interactive(figure=figure["figure"], cell=cell, **told(figure))


def setup(app):
    app.add_directive("interactive-of", InteractiveOf)
