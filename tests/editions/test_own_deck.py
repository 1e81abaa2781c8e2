"""A deck of one's own in a browser: slides of two course decks, a picture, a logo, free numbers."""

import base64

import pytest

from tests.editions.site import READY
from tests.test_decks import DOT
from tools import lectures, web
from tools.overfull import overfull

DECK = """---
logo: logo.png
---
# Monday

:::{mine}
:::

:::{notes} 1
:::

:::{slides-of} 02_layer_norm
LayerNorm is a fixed function of one row  % 3 min
:::

:::{slides-of} 05_dyt
RMSNorm bends each number like an S
:::

## My own models

:::{mine}
:::

Of 25 models 42 % have none.

![A dot.](pictures/photo.png){height=300px}

:::{notes} 2
:::

## Too much

:::{mine}
:::

BULLETS

:::{notes} 1
:::
""".replace("BULLETS", "\n".join(f"- number {number}" for number in range(20)))

SEEN = """[...document.querySelectorAll(".slides > section")].map((slide) => ({
  heading: slide.querySelector("h1, h2").textContent,
  logo: slide.querySelector("img.logo") !== null,
  pictures: [...slide.querySelectorAll("p img")].map((image) => image.naturalWidth > 0),
  lesson: slide.querySelector("a.cell")?.getAttribute("href").split("#")[0],
  foot: slide.querySelector(".where")?.textContent,
}))"""


@pytest.fixture(scope="module")
def deck(site, tmp_path_factory):
    """Built as a draft, from a folder my/lectures of its own."""
    work = tmp_path_factory.mktemp("clone")
    folder = work / "my" / "lectures"
    (folder / "pictures").mkdir(parents=True)
    (folder / "monday.md").write_text(DECK, "utf-8")
    for name in ("logo.png", "pictures/photo.png"):
        (folder / name).write_bytes(base64.b64decode(DOT))
    assert lectures.draft([folder / "monday.md"], web.NOTEBOOKS, work) == []
    return work / "draft" / "my" / "lectures" / "monday.html"


def test_it_has_its_slides_with_their_lessons_pictures_and_logo(tab, deck):
    tab.open(deck.as_uri(), READY)
    lessons = "../../02_layer_norm.html", "../../05_dyt.html"
    assert tab.run(SEEN) == [
        {"heading": "Monday", "logo": True, "pictures": []},
        {
            "heading": "LayerNorm is a fixed function of one row",
            "logo": False,
            "pictures": [],
            "lesson": lessons[0],
            "foot": "One row",  # it begins on a slide that was left out
        },
        {
            "heading": "RMSNorm bends each number like an S",
            "logo": False,
            "pictures": [],
            "lesson": lessons[1],
            "foot": "The S",
        },
        {"heading": "My own models", "logo": True, "pictures": [True]},
        {"heading": "Too much", "logo": True, "pictures": []},
    ]
    assert tab.errors == []
    assert tab.outgoing() == []


def test_the_one_slide_that_holds_too_much_is_named(tab, deck):
    (line,) = overfull(tab, deck)
    assert line.startswith("monday, slide 5 (Too much): “number 19” ends ")
