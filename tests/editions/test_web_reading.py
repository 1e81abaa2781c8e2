"""What a stranger, a searcher and a reader with a phone meet: positions, sizes, first results."""

import itertools
import re

import pytest

from editions import front, order
from normcourse.lesson import Notebook
from tests.editions.conftest import ROOT
from tests.editions.site import READY

README = front.README.read_text("utf-8")
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SMALLEST_CODE = 13.5  # pixels
RELATED = re.compile(r'<a class="(next|prev)-page" href="([^"#]+)')
META = re.compile(r'<meta (?:name|property)="(description|og:\w+)" content="([^"]+)">')
RESULTS = (
    "[...document.querySelectorAll('#search-results li a')].map((a) => a.getAttribute('href'))"
)
# The paragraphs that end above the lower edge of the window.
IN_SIGHT = """[...document.querySelectorAll("article p")].filter(
  (part) => part.getBoundingClientRect().bottom < innerHeight).map(
  (part) => part.innerText).join("\\n")"""


def related(site, page):
    """{next: page, prev: page} as the foot of a page links them."""
    return dict(RELATED.findall((site / f"{page}.html").read_text("utf-8")))


@pytest.mark.parametrize("window", [(1280, 900, False), (360, 780, True)])
def test_who_opens_the_first_page_sees_where_to_begin(tab, site, window):
    width, height, phone = window
    tab.size(width, height, phone).open((site / "index.html").as_uri(), READY)
    link = tab.run("document.querySelector('a.begin').href")
    assert link == (site / "00_why_normalize.html").as_uri()
    (asked,) = re.findall(r"^\*\*What broke\?\*\* .+", README, re.M)
    minutes = Notebook(ROOT / "notebooks" / "00_why_normalize.ipynb").minutes
    seen = tab.run(IN_SIGHT)
    for said in (
        front.description(README),
        asked.replace("*", ""),
        f"Begin with lesson 00\n{minutes.core} minutes to read, nothing to install",
        f"{front.made_by()} made it. A machine runs every notebook again",
        "how many outputs move?",
    ):
        assert said in seen
    figure = tab.run("document.querySelector('.interactive').getBoundingClientRect().toJSON()")
    assert (figure["top"] if phone else figure["bottom"]) < height


def test_the_authors_are_those_of_the_citation(tmp_path):
    file = tmp_path / "CITATION.cff"
    ada = "- {given-names: Ada, family-names: Lovelace}\n"
    file.write_text(f"authors:\n{ada}- name: A Group\n- name: Others\n", "utf-8")
    assert front.made_by(file) == "Ada Lovelace, A Group and Others"


def test_the_first_page_has_a_card_for_each_question_of_the_readme(tab, site):
    tab.open((site / "index.html").as_uri(), READY)
    card = "{text: e.innerText, closed: [...e.querySelectorAll('details')].every((d) => !d.open)}"
    cards = tab.run(f"[...document.querySelectorAll('ul.cards > li')].map((e) => ({card}))")
    rows = [row for row in front.LESSON.findall(README) if not row[1]]
    assert len(rows) == 9
    for seen, (number, _, question, _, minutes, built) in zip(cards, rows, strict=True):
        assert seen["closed"]
        for words in (f"{number} · {question}", f"{minutes} minutes", built.split(",")[0]):
            assert words in seen["text"]


def test_a_shared_link_says_what_the_course_is_and_shows_its_picture(site):
    said = dict(META.findall((site / "index.html").read_text("utf-8")))
    assert said["description"] == said["og:description"] == front.description(README)
    assert said["og:title"] == README.partition("\n")[0].removeprefix("# ")
    assert (site / said["og:image"]).is_file()


def test_next_and_previous_follow_the_main_road(site):
    road = order.main_road(LESSONS)
    for before, after in itertools.pairwise(road):
        assert related(site, before)["next"] == f"{after}.html"
        assert related(site, after)["prev"] == f"{before}.html"
        for side in order.side_lessons(before, LESSONS):
            assert related(site, side) == {"prev": f"{before}.html", "next": f"{after}.html"}
    assert related(site, road[-1])["next"] == "reference/choose.html"


def test_the_sidebar_shows_where_one_is_and_folds_the_rest(tab, site):
    tab.size(1280, 700).open((site / "07a_published_speed.html").as_uri(), READY)
    entry = "document.querySelector('.sidebar-tree .current-page > a').getBoundingClientRect()"
    assert 0 < tab.run(f"{entry}.top") < 700
    lessons = "[...document.querySelectorAll('.sidebar-tree > ul:first-of-type a')]"
    shown = f"{lessons}.filter((a) => a.checkVisibility()).map((a) => a.getAttribute('href'))"
    opened = order.side_lessons("07a_published_speed", LESSONS)
    assert len(tab.run(shown)) == len(order.main_road(LESSONS)) + len(opened)


# what is asked -> the page that has to come first, or its beginning
SEARCHES = {
    "EQ-LN": "reference/equations_layer_normalization",
    "EQ-RMS-GRAD": "reference/equations_rms_normalization",
    "welford": "07a_published_speed",
    "running": "01_batch_norm",  # of "running statistics"
    "RMSNorm": "03_rms_norm",
    "weight decay": "03b_scale_decay_gain",
    "QK-norm": "05a_logits",
    "eigenvalues": "00b_products_and_steps",  # the glossary has "eigenvalue"
    "GroupNorms": "02b_other_axes",
    "DyISRU": "06_dyisru",
    "gradient": "04_gradient_derivation",
    "layers.RMSNorm": "library/layers.html#normlib.layers.RMSNorm",
    "rms_norm": "library/functional.html#normlib.functional.rms_norm",
    "残差": "00_why_normalize",
    "层归一化": "02_layer_norm",
    "均方根归一化": "03_rms_norm",
    "批归一化": "01_batch_norm",
}


def results_in(site):
    def search(tab, asked):
        tab.open((site / "search.html").as_uri() + f"?q={asked}", READY)
        tab.wait("/finished|did not/.test(document.querySelector('.search-summary')?.innerText)")
        return tab.run(RESULTS)

    return search


@pytest.fixture(scope="module")
def found(chromium, site):
    """{what is asked: the addresses that the search finds}."""
    return dict(zip(SEARCHES, chromium.map(results_in(site), SEARCHES), strict=True))


@pytest.mark.parametrize("asked", SEARCHES)
def test_a_search_finds_first_what_treats_it(found, asked):
    assert found[asked][0].startswith(SEARCHES[asked])


def test_a_search_names_a_page_once_and_the_heading_that_it_met(found):
    for asked, addresses in found.items():
        pages = [address for address in addresses if "#normlib." not in address]
        assert len({page.partition("#")[0] for page in pages}) == len(pages), asked
    assert "02_layer_norm.html#the-gradient" in found["gradient"]


CODE = """[...document.querySelectorAll("pre")].filter((e) => e.checkVisibility()).map((e) => ({
  size: parseFloat(getComputedStyle(e).fontSize), text: e.innerText.slice(0, 60),
  beyond: e.scrollWidth - e.clientWidth > 1, cut: e.classList.contains("cut"),
  wrapped: e.closest(".wrapped, .traceback") !== null}))"""


@pytest.mark.parametrize("width", [1280, 820, 360])
def test_code_is_large_enough_and_what_is_cut_shows_it(tab, site, width):
    tab.size(width, 800, phone=width < 900).open((site / "02_layer_norm.html").as_uri(), READY)
    seen = tab.run(CODE)
    assert [e["text"] for e in seen if e["size"] < SMALLEST_CODE] == []
    assert [e["text"] for e in seen if e["beyond"] != e["cut"]] == []
    assert [e["text"] for e in seen if e["wrapped"] and e["beyond"]] == []
    assert sum(e["wrapped"] for e in seen) > 5
    assert "import" not in seen[0]["text"]


@pytest.mark.parametrize("page", ["reference/choose", "reference/claims", "07_cuda_timing"])
def test_on_a_phone_a_row_of_a_wide_table_is_a_card(tab, site, page):
    tab.size(360, 800, phone=True).open((site / f"{page}.html").as_uri(), READY)
    cells = "[...document.querySelectorAll('table.wide td')]"
    beyond = tab.run(f"{cells}.filter((e) => e.getBoundingClientRect().right > 361).length")
    assert tab.run(f"{cells}.length") >= 40
    assert beyond == 0
    assert tab.run(f"{cells}.every((e) => 'column' in e.dataset)")
    tables = "[...document.querySelectorAll('.table-wrapper')]"
    assert tab.run(f"{tables}.filter((e) => e.scrollWidth > e.clientWidth).length") == 0


LETTERS = """Math.min(...[...document.querySelectorAll(".interactive text")].map(
  (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""


def test_on_a_phone_a_picture_opens_wider_than_the_screen(tab, site):
    tab.size(360, 800, phone=True).open((site / "07_cuda_timing.html").as_uri(), READY)
    assert tab.run(LETTERS) >= 12
    tab.run("document.querySelector('.cell_output a.image-reference').click()")
    tab.wait("document.querySelector('dialog.zoom img').clientWidth >= 600")
    assert tab.run("document.querySelector('dialog.zoom').scrollWidth") >= 600
    assert tab.run("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize(("scheme", "changed"), [("light", False), ("dark", True)])
def test_figures_are_dark_on_a_dark_page(tab, site, scheme, changed):
    tab.media(prefers_color_scheme=scheme).open((site / "02_layer_norm.html").as_uri(), READY)
    for figure in (".cell_output img", ".interactive"):
        style = f"getComputedStyle(document.querySelector('{figure}')).filter"
        assert (tab.run(style) != "none") == changed, figure
