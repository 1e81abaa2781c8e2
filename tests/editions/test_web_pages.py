"""Every page of the web edition: its links, formulas, pictures, widths and barriers."""

import re
from urllib.parse import unquote, urldefrag, urlparse

import pytest

from editions import moved, prepare
from tests.editions.conftest import ROOT
from tests.editions.site import (
    LICENCE,
    displayed_formulas,
    is_deck,
    notebook_of,
    pages,
    squeezed,
    visitor,
)

NOTEBOOKS = ROOT / "notebooks"
COLD_KILOBYTES = 900
SET = re.compile(r'class="math notranslate[^"]*">(<span class=katex)?')
RAW = re.compile(r"\\(?:frac|begin|sqrt|mathrm)|\$\$|\*\*\[|\]\(#|:::|```|\{#|\{cell-start")


SAYS_NOTHING = re.compile(r"""<span class="?(?:n|p|mord|mrel|mtight)"?>[^<]""")


@pytest.fixture(scope="module")
def web_pages(site):
    return [page for page in pages(site) if not is_deck(page)]


@pytest.fixture(scope="module")
def visits(chromium, site, web_pages, axe):
    return chromium.map(visitor(site, axe), web_pages)


@pytest.fixture(scope="module")
def lessons(visits):
    """The pages that are made from notebooks, each with its notebook."""
    made = [(visit, notebook_of(visit.page, NOTEBOOKS)) for visit in visits]
    return [(visit, notebook) for visit, notebook in made if notebook]


def every(visits, read):
    """{page: what `read` finds there} where it finds something."""
    found = {visit.page: read(visit) for visit in visits}
    return {page: faults for page, faults in found.items() if faults}


def test_every_notebook_and_reference_page_is_a_page(site):
    made_from = [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("solutions/*.ipynb")]
    made_from += prepare.reference_pages(NOTEBOOKS)
    wanted = [path.relative_to(NOTEBOOKS).with_suffix(".html") for path in made_from]
    assert len(wanted) > 30
    assert [str(page) for page in wanted if not (site / page).is_file()] == []


def test_the_address_of_a_lesson_that_is_gone_leads_to_where_its_subject_is(site, visits):
    links = {visit.page: visit.seen["links"] for visit in visits}
    for old in moved.MOVED:
        for new in moved.goals(old, NOTEBOOKS):
            for folder in ("", "solutions/"):
                wanted = (site / f"{folder}{new}.html").as_uri()
                assert wanted in links[f"{folder}{old}.html"], old


def test_nothing_fails_and_nothing_leaves_the_machine(visits):
    assert every(visits, lambda visit: visit.errors) == {}
    assert every(visits, lambda visit: visit.outgoing) == {}


@pytest.mark.parametrize("window", ["desktop", "phone"])
def test_no_page_is_wider_than_its_window(visits, window):
    assert every(visits, lambda visit: visit.too_wide[window]) == {}


def test_every_formula_is_set_before_a_script_runs(site, web_pages):
    found = {page: SET.findall((site / page).read_text("utf-8")) for page in web_pages}
    assert sum(map(len, found.values())) > 3000
    assert {page: formulas for page, formulas in found.items() if not all(formulas)} == {}


def test_no_word_is_marked_that_looks_as_its_neighbours(site, web_pages):
    found = {page: SAYS_NOTHING.findall((site / page).read_text("utf-8")) for page in web_pages}
    assert {page: marks[:3] for page, marks in found.items() if marks} == {}


def test_the_displayed_formulas_are_those_of_the_notebook(lessons):
    different = {}
    for visit, notebook in lessons:
        shown = [squeezed(latex) for latex in visit.seen["formulas"]]
        wanted = displayed_formulas(notebook)
        if shown != wanted:
            pairs = zip([*shown, None], [*wanted, None], strict=False)
            different[visit.page] = next(pair for pair in pairs if pair[0] != pair[1])
    assert different == {}


def test_no_markup_is_left_in_the_words(visits):
    assert every(visits, lambda visit: RAW.findall(visit.seen["words"])) == {}


def test_pictures_have_the_alt_texts_of_the_notebook(lessons):
    count = 0
    for visit, notebook in lessons:
        wanted = [picture.alt for cell in notebook.cells for picture in cell.pictures]
        assert visit.seen["pictures"] == wanted, visit.page
        count += len(wanted)
    assert count > 30


def test_pictures_are_shown_named_and_said_once(visits):
    assert every(visits, lambda visit: visit.seen["broken"]) == {}
    assert every(visits, lambda visit: visit.seen["nameless"]) == {}
    assert every(visits, lambda visit: visit.seen["twiceSaid"]) == {}


def test_every_cell_has_its_anchor_once(lessons):
    for visit, notebook in lessons:
        anchors = [name for name in visit.seen["ids"] if name.startswith("cell-")]
        inserted = {name for name in anchors if name.startswith("cell-interactive-")}
        wanted = [f"cell-{cell.id}" for cell in notebook.cells]
        assert sorted(set(anchors) - inserted) == sorted(wanted)


def test_no_id_twice(visits):
    def twice(visit):
        ids = visit.seen["ids"]
        return {name for name in ids if ids.count(name) > 1}

    assert every(visits, twice) == {}


def test_every_link_has_its_target(site, visits):
    ids = {(site / visit.page).as_uri(): set(visit.seen["ids"]) for visit in visits}

    def dead(visit):
        faults = []
        for link in visit.seen["links"]:
            address, anchor = urldefrag(link)
            if address in ids:
                if anchor and unquote(anchor) not in ids[address]:
                    faults.append(link)
            elif address.startswith("file:"):
                path = site / unquote(urlparse(address).path)
                if not path.is_file():
                    faults.append(link)
        return faults

    assert every(visits, dead) == {}


def test_answers_and_drawing_code_are_folded(lessons):
    assert every([visit for visit, _ in lessons], lambda visit: visit.seen["openFolds"]) == {}
    found = 0
    for visit, notebook in lessons:
        hidden = set(visit.seen["answers"])
        for prediction in notebook.predictions:
            for cell in prediction.cells:
                assert f"cell-{cell.id}" in hidden, visit.page
                found += 1
    assert found > 100


def test_every_page_says_under_which_licence_it_is(visits):
    assert every(visits, lambda visit: visit.seen["licences"] != [LICENCE]) == {}
    name, _, address = LICENCE.partition(": ")
    text = (ROOT / "LICENSE-TEXT.md").read_text("utf-8")
    assert f"({name})" in text
    assert f"<{address}" in text


def test_a_cold_page_is_small(visits):
    heavy = every(visits, lambda visit: max(0, round(visit.kilobytes - COLD_KILOBYTES)))
    assert heavy == {}, "kilobytes too many"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visits, scheme):
    assert every(visits, lambda visit: visit.barriers[scheme]) == {}
