"""The figures to move as pages by themselves, for students: no cell and no solution is on them.

For each lesson with such a figure a file NAME.html, which a browser opens without a server.
"""

import shutil
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from editions.extension.interactive import FOLDER, SCRIPTS, box
from editions.interactive import places, told
from normcourse.lesson import Notebook

ROOT = Path(__file__).resolve().parents[1]
STYLES = [FOLDER.parent / "course.css", FOLDER / "marks.css"]
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{styles}
<style>
body {{ max-width: 44rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif; }}
</style>
</head>
<body data-theme="light">
<h1>{title}</h1>
{figures}
{scripts}
</body>
</html>
"""


def figure_of(place: dict) -> str:
    words = MarkdownIt().render(place["words"])
    inside = box({"figure": place["figure"], **told(place)})
    return f'<div class="interactive-box">\n{words}{inside}</div>\n'


def page_of(title: str, figures: list[dict]) -> str:
    names = sorted({f"{place['figure']}.js" for place in figures})
    scripts = [f'<script src="parts/{name}"></script>' for name in [*SCRIPTS, *names]]
    styles = [f'<link rel="stylesheet" href="parts/{path.name}">' for path in STYLES]
    return PAGE.format(
        title=escape(title),
        styles="\n".join(styles),
        figures="\n".join(map(figure_of, figures)),
        scripts="\n".join(scripts),
    )


def write(target: Path, notebooks: Path = ROOT / "notebooks") -> list[Path]:
    """Into the folder `target`; returns the pages."""
    parts = target / "parts"
    parts.mkdir(parents=True)
    for path in [*FOLDER.glob("*.js"), *STYLES]:
        shutil.copy(path, parts)
    pages = []
    for name, figures in places().items():
        title = Notebook(notebooks / f"{name}.ipynb").title
        pages.append(target / f"{name}.html")
        pages[-1].write_text(page_of(title, figures), "utf-8")
    return pages
