"""What a reader does on a page: looks up a formula, opens a fold, zooms, searches, prints."""

import filecmp

import pytest

from editions import colab
from tests.editions.conftest import ROOT
from tests.editions.site import READY

LESSON = "02_layer_norm"
STATED = "document.querySelector('p.stated a')"


@pytest.fixture
def lesson(tab, site):
    return tab.open((site / f"{LESSON}.html").as_uri(), READY)


def middle(tab, element):
    """Scrolls to an element, and says where its middle is in the window."""
    tab.run(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
    return tab.run(f"{box}({element}.getBoundingClientRect())")


def test_a_tag_shows_its_formula_under_the_pointer(lesson):
    x, y = middle(lesson, STATED)
    lesson.mouse("move", x - 150, y - 30)
    lesson.mouse("move", x, y)
    lesson.wait("!document.getElementById('formula-preview').hidden")
    tag = lesson.run(f"{STATED}.textContent")
    shown = lesson.run("document.getElementById('formula-preview').textContent")
    assert shown.startswith(f"{tag}: ")
    assert lesson.run("document.querySelectorAll('#formula-preview .katex').length") == 1
    lesson.mouse("move", x - 150, y - 60)
    lesson.wait("document.getElementById('formula-preview').hidden")


def test_a_tag_shows_its_formula_on_focus_and_hides_it_on_escape(lesson):
    lesson.run(f"{STATED}.focus()")
    lesson.wait("!document.getElementById('formula-preview').hidden")
    assert lesson.run(f"{STATED}.getAttribute('aria-describedby')") == "formula-preview"
    lesson.key("Escape")
    lesson.wait("document.getElementById('formula-preview').hidden")


def test_the_preview_stays_on_a_phone(tab, site):
    tab.size(390, 844, phone=True).open((site / f"{LESSON}.html").as_uri(), READY)
    tab.run(f"{STATED}.focus()")
    tab.wait("!document.getElementById('formula-preview').hidden")
    box = tab.run("document.getElementById('formula-preview').getBoundingClientRect().toJSON()")
    assert box["left"] >= 0
    assert box["right"] <= 390


def test_a_link_to_a_paper_shows_its_authors_and_title(lesson):
    links = "document.querySelectorAll('a[href$=\"abs/1607.06450\"]')"
    link = f"[...{links}].at(-1)"  # the one of the sources, which are folded
    lesson.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert not lesson.run(f"{link}.title"), "the browser would show it a second time"
    x, y = middle(lesson, link)
    lesson.mouse("move", x, y - 150)
    lesson.mouse("move", x, y)
    lesson.wait("!document.getElementById('formula-preview').hidden")
    shown = lesson.run("document.getElementById('formula-preview').textContent")
    assert shown == "Ba, Kiros & Hinton 2016: Layer Normalization"
    lesson.mouse("move", x, y - 150)
    lesson.wait("document.getElementById('formula-preview').hidden")
    lesson.run(f"{link}.focus()")
    lesson.wait("!document.getElementById('formula-preview').hidden")


def test_a_tag_leads_to_its_equation(lesson, site):
    address = lesson.run(f"{STATED}.href")
    page, _, anchor = address.partition("#")
    assert page.startswith((site / "reference" / "equations_").as_uri())
    lesson.open(address, READY)
    heading = f"document.getElementById('{anchor}').closest('section').querySelector('h2')"
    assert lesson.run(f"{heading}.textContent").startswith(anchor.upper())


def test_a_picture_opens_at_full_size(lesson):
    image = "document.querySelector('.cell_output img')"
    lesson.run(f"{image}.closest('a').focus()")
    lesson.key("Enter")
    lesson.wait("document.querySelector('dialog.zoom').open")
    large = "document.querySelector('dialog.zoom img')"
    lesson.wait(f"{large}.complete")
    assert lesson.run(f"{large}.alt === {image}.alt")
    assert lesson.run(f"{large}.clientWidth > {image}.clientWidth")
    lesson.key("Escape")
    lesson.wait("!document.querySelector('dialog.zoom').open")


def test_a_link_to_a_cell_opens_the_folds_around_it(tab, site):
    cell = "cell-predict-01-answer"
    tab.open((site / f"{LESSON}.html").as_uri() + f"#{cell}", READY)
    assert tab.run(f"document.getElementById('{cell}').closest('details').open")
    assert tab.run("document.querySelectorAll('details.fold[open]').length") == 1


def test_the_notebook_to_download_is_the_notebook(lesson, site):
    link = lesson.run("document.querySelector('.page-tools a[download]').href")
    path = site / "_static" / "notebooks" / f"{LESSON}.ipynb"
    assert link == path.as_uri()
    assert filecmp.cmp(path, ROOT / "notebooks" / f"{LESSON}.ipynb", shallow=False)


def test_only_with_an_address_there_is_a_button_for_colab(lesson):
    repository = colab.repository()
    buttons = lesson.run("[...document.querySelectorAll('.page-tools .colab')].map((a) => a.href)")
    assert buttons == ([colab.lesson(repository, LESSON)] if repository else [])


def test_a_word_is_found(tab, site):
    tab.open((site / "search.html").as_uri() + "?q=welford", READY)
    tab.wait("document.querySelectorAll('#search-results li a').length > 0")
    links = tab.run("[...document.querySelectorAll('#search-results li a')].map((a) => a.href)")
    assert any("07a_published_speed.html" in link for link in links)
    assert tab.errors == []
    assert tab.outgoing() == []


def test_dark_mode_is_dark(tab, site):
    tab.media(prefers_color_scheme="dark").open((site / f"{LESSON}.html").as_uri(), READY)
    colour = tab.run("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, colour.strip("rgb()").split(", "))) < 64
    picture = "getComputedStyle(document.querySelector('.cell_output img')).backgroundColor"
    assert tab.run(picture) == "rgb(255, 255, 255)"
