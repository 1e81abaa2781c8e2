"""What a reader of the web edition gets of one small notebook. No browser and no node runs."""

import base64
import html
import json
import re
from types import SimpleNamespace

import pytest

from editions import exercises, prepare
from editions.extension.decks import figures
from tools import web

ALT = "A dot, and 42% of it."
DOT = (  # the smallest PNG: one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
WORDS = """# A small lesson

EQ-LN in words, `EQ-LN in code`, and a listing:

```python
EQ-LN = "in a listing"
```
"""
DRAWN = {
    "output_type": "display_data",
    "data": {"image/png": DOT},
    "metadata": {"image/png": {"alt": ALT, "width": 1, "panels": []}},
}
CELLS = [
    {"id": "title", "cell_type": "markdown", "metadata": {}, "source": WORDS},
    {
        "id": "picture",
        "cell_type": "code",
        "metadata": {},
        "source": "plot()",
        "execution_count": 1,
        "outputs": [DRAWN],
    },
]
INDEX = "# Index\n\n```{toctree}\nsmall\nreference/equations\n```\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The HTML of the notebook."""
    folder = tmp_path_factory.mktemp("course")
    notebooks, source = folder / "notebooks", folder / "source"
    small, equations = notebooks / "small.ipynb", notebooks / "reference" / "equations.md"
    about = {"language_info": {"name": "python", "pygments_lexer": "python"}}
    notebook = {"cells": CELLS, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    prepare.write(small, json.dumps(notebook))
    prepare.write(equations, "# Equations\n\n### EQ-LN — Layer normalization\n")
    prepare.write(source / "index.md", INDEX)
    (source / prepare.FILES).mkdir()
    prepare.write(
        source / "small.ipynb", prepare.prepared_notebook(small, notebooks, [], ["small"], [])
    )
    prepare.write(
        source / "reference" / "equations.md",
        prepare.prepared_reference(equations.read_text("utf-8"), equations, notebooks),
    )
    settings = {
        "course_notebooks": notebooks,
        "html_static_path": "static",  # KaTeX comes through npm
        "html_css_files": "course.css",
    }
    options = [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
    complaints = web.sphinx(source, folder / "web", folder / "doctrees", *options)
    assert complaints == []
    return (folder / "web" / "small.html").read_text("utf-8")


def test_a_tag_is_a_link_in_words_and_stays_text_in_code(page):
    article = page.partition("<article")[2].partition("</article>")[0]
    assert re.findall(r'<a [^>]*href="reference/equations\.html#eq-ln"', article)
    for code in re.findall(r"<(?:code|pre)\b.*?</(?:code|pre)>", article, re.S):
        assert "<a " not in code and "](" not in code, code
    text = html.unescape(re.sub(r"<[^>]+>", "", article))
    assert "EQ-LN in code" in text and 'EQ-LN = "in a listing"' in text


def test_a_picture_has_the_alt_text_of_its_output(page):
    (picture,) = re.findall(r"<img [^>]*_images[^>]*>", page)
    assert f'alt="{ALT}"' in picture


def test_a_picture_has_its_alt_text_on_a_slide_and_on_a_sheet_of_exercises():
    picture = SimpleNamespace(png=base64.b64decode(DOT), alt=ALT, width=1, panels=())
    slide = figures.figure(picture, "picture", figures.whole(picture), (900, 900), steps=False)
    for shown in (slide, exercises.image(picture)):
        assert re.findall(r'<img [^>]*alt="(.+?)"', shown) == [ALT]
