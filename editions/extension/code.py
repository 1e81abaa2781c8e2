"""Code in colours, and no more of them than a page shows.

A word that has the colour of plain text needs no element of its own, and no page shows a terminal,
for whose 256 colours myst-nb brings 38 kB of style.
"""

import re
from pathlib import Path

from pygments.formatters import HtmlFormatter
from pygments.styles import get_style_by_name
from pygments.token import Text


class Lighter(HtmlFormatter):
    styles: tuple = ()  # of a light and of a dark page

    def is_plain(self, kind) -> bool:
        looks = [
            (style.style_for_token(kind), style.style_for_token(Text)) for style in self.styles
        ]
        return all(look == plain for look, plain in looks)

    def format_unencoded(self, tokensource, outfile):
        lighter = ((Text if self.is_plain(kind) else kind, words) for kind, words in tokensource)
        super().format_unencoded(lighter, outfile)


def use(app):
    if app.builder.format == "html":
        names = app.config.pygments_style, app.config.pygments_dark_style
        Lighter.styles = tuple(map(get_style_by_name, names))
        app.builder.highlighter.formatter = Lighter


TERMINAL = re.compile(r"div\.highlight \.-Color[^{]*\{[^}]*\}\s*")


def drop_terminals(app, exception):
    for path in Path(app.outdir, "_static").glob("mystnb.*.css"):
        path.write_text(TERMINAL.sub("", path.read_text("utf-8")), "utf-8")


def setup(app):
    app.connect("builder-inited", use)
    app.connect("build-finished", drop_terminals)
