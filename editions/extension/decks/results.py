"""A result as a chart or as a table: drawn from what the lesson printed, or says of its picture."""

import html
import re
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives

from editions import house
from editions.extension.decks import charts
from editions.extension.decks.directives import Lines, raw
from editions.extension.decks.lesson import Misfit, everything, said
from editions.extension.decks.rows import NUMBER, Row, pairs, readable, rows_of
from normcourse import palette

DIGITS = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*")
CELLS = {
    "rows": directives.unchanged_required,
    "groups": directives.unchanged_required,
    "say": directives.unchanged_required,
    "steps": lambda text: directives.positive_int(text or "1"),
}


class Result(Lines):
    """Rows that a pattern finds in what a reader finds under one cell, or several."""

    def part(self, cells):
        self.cells = cells.split()
        text = "\n".join(said(self.lesson, cell) for cell in self.cells)
        if "rows" not in self.options:
            raise Misfit(":rows: /pattern/ says which lines are its rows")
        rows = rows_of(self.chosen(text), self.options["rows"], self.options.get("groups", ""))
        self.said = pairs(self.options.get("say", ""))
        box = nodes.container("", raw(self.shown(rows), self.cells[0]), classes=["result"])
        box += [raw("", cell) for cell in self.cells[1:]]  # their numbers may be said, too
        return box

    def written(self, printed: str) -> str:
        return self.said.get(printed, house.WRITTEN.get(printed, readable(printed)))

    def vouched(self, words: str) -> str:
        """Words of the deck; a number in them is one of the cells'."""
        known = "".join(everything(self.lesson, cell) for cell in self.cells)
        for number in DIGITS.findall(words):
            if len(number) > 1 and number not in known:
                raise Misfit(f"{number} stands in none of the cells {self.cells}")
        return words


class ChartOf(Result):
    option_spec: ClassVar = {
        **Lines.option_spec,
        **CELLS,
        "unit": directives.unchanged_required,
        "across": directives.unchanged_required,
        "axis": directives.unchanged_required,
        "colours": directives.unchanged_required,
        "log": directives.flag,
        "log-across": directives.flag,
        "dots": directives.flag,
        "height": directives.positive_int,
    }

    def shown(self, rows: list[Row]) -> str:
        if "unit" not in self.options:
            raise Misfit(":unit: says what the numbers of a chart are")
        self.colours = pairs(self.options.get("colours", ""))
        width, height = self.room()
        look = charts.Look(
            unit=self.vouched(self.options["unit"]),
            width=width,
            height=self.options.get("height", height),
            across=self.vouched(self.options.get("across", "")),
            ends=self.ends(),
            log="log" in self.options,
            log_across="log-across" in self.options,
            dots="dots" in self.options,
            steps=self.options.get("steps", 0),
            name=self.written,
            colour=self.colour,
        )
        return charts.chart(rows, look)

    def ends(self) -> tuple[float, float] | None:
        if "axis" not in self.options:
            return None
        try:
            low, high = map(float, self.options["axis"].split())
        except ValueError:
            given = self.options["axis"]
            raise Misfit(f":axis: wants two numbers, low and high, not {given!r}") from None
        return low, high

    def colour(self, printed: str) -> str:
        wanted = self.colours.get(printed)
        if wanted is None:
            return house.colour_of(self.written(printed))
        if wanted not in house.COLOURS:
            raise Misfit(f"no colour is called {wanted!r}; there are {', '.join(house.COLOURS)}")
        return house.COLOURS[wanted]


class TableOf(Result):
    option_spec: ClassVar = {
        **Lines.option_spec,
        **CELLS,
        "heads": directives.unchanged_required,
        "ask": directives.flag,  # the room fills the last column: it comes at clicks
    }

    def shown(self, rows: list[Row]) -> str:
        width = len(rows[0].cells)
        heads = [self.vouched(head.strip()) for head in self.options.get("heads", "").split("|")]
        if len(heads) != width:
            raise Misfit(f"{len(heads)} :heads:, but the pattern has {width} groups")
        columns = list(zip(*(row.cells for row in rows), strict=True))
        kinds = [' class="number"' if all(map(is_number, column)) else "" for column in columns]
        parts = [self.head(head, kind) for head, kind in zip(heads, kinds, strict=True)]
        shown = self.options.get("steps", 0)
        asked = "ask" in self.options
        body = []
        group = ""
        for place, row in enumerate(rows):
            click = place >= shown and (asked or shown > 0)
            later = ' class="fragment"' if click and not asked else ""
            if row.group != group:
                group = row.group
                name = html.escape(group)
                body.append(f'<tr{later}><th colspan="{width}" scope="rowgroup">{name}</th></tr>')
            cells = [html.escape(self.written(cell)) for cell in row.cells]
            if click and asked:
                cells[-1] = f'<p class="fragment answer">{cells[-1]}</p>'
            drawn = [f"<td{kind}>{cell}</td>" for cell, kind in zip(cells, kinds, strict=True)]
            body.append(f"<tr{later}>{''.join(drawn)}</tr>")
        head = f"<thead><tr>{''.join(parts)}</tr></thead>"
        return f'<table class="result">{head}<tbody>{"".join(body)}</tbody></table>'

    def head(self, head: str, kind: str) -> str:
        """A heading that names a norm has its colour."""
        norm = house.norm_in(head)
        look = f' style="color:{palette.ink(house.COLOURS[norm])}"' if norm else ""
        return f'<th scope="col"{kind}{look}>{html.escape(head)}</th>'


def is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.rstrip("% ")) is not None


def setup(app):
    app.add_directive("chart-of", ChartOf)
    app.add_directive("table-of", TableOf)
