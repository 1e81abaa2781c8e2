"""What comes out of the printer: decks, handouts, web pages. Pages are looked at as pictures."""

import base64
import io
import re
import shutil

import pytest
from PIL import Image, ImageFilter

from editions.slide import SIZE
from tests.editions.conftest import ROOT
from tests.editions.paper import Paper, difference, edges, is_white, squeezed
from tests.editions.site import READY
from tools import lectures

MARGIN = {"left": 40, "top": 30, "right": 40, "bottom": 12}  # pixels of 1/96 inch
SHEETS = ("02_layer_norm", "exercises/05_dyt", "reference/equations", "solutions/03_rms_norm")

# What the slides promise: the words of all their steps (not of formulas, whose letters a PDF has in
# an order of its own), and each panel that waits under a mask, with the place where it has to be.
PROMISED = """[...document.querySelectorAll(".pdf-page")].map((page) => {
  const words = [];
  for (const part of page.querySelectorAll("section :is(h1, h2, p, li, pre, td)")) {
    if (!part.closest("aside") && !part.querySelector(".math, p")) words.push(part.textContent);
  }
  const panels = [...page.querySelectorAll(".mask")].map((mask) => {
    const frame = mask.parentElement.getBoundingClientRect();
    const edge = page.getBoundingClientRect();
    const image = mask.parentElement.querySelector("img");
    const [left, top, width, height] = ["left", "top", "width", "height"].map(
      (name) => parseFloat(mask.style[name]));
    return {left, top, width, height, source: image.src, shown: parseFloat(image.style.width),
            x: frame.left - edge.left, y: frame.top - edge.top};
  });
  return {words, panels};
})"""


@pytest.fixture(scope="module")
def promised(chromium, site):
    """{deck: what each of its slides has to show on paper}."""
    with chromium.tab() as tab:
        tab.size(*SIZE)
        found = {}
        for deck in sorted(site.glob("lectures/*.html")):
            tab.open(f"{deck.as_uri()}?view=print", lectures.PRINTABLE)
            found[deck.stem] = tab.run(PROMISED)
    return found


@pytest.fixture(scope="module")
def printed(site, tmp_path_factory):
    """The folder with all decks and handouts, as `make lectures` prints them."""
    folder = tmp_path_factory.mktemp("printed")
    lectures.print_decks(site, folder)
    return folder


def faults_of(path, slides):
    """What is wrong with a printed deck; a handout has a page of notes behind each slide."""
    faults = []
    apart = 2 if path.stem.endswith("_handout") else 1
    with Paper(path) as paper:
        if len(paper) != apart * len(slides):
            faults.append(f"{len(paper)} pages for {len(slides)} slides")
        for number in range(len(paper)):
            for side, stripe in edges(paper.picture(number), **MARGIN).items():
                if not is_white(stripe):
                    faults.append(f"page {number + 1}: no white {side} edge")
        for number, slide in enumerate(slides):
            page = apart * number
            words = paper.words(page)
            for text in slide["words"]:
                if squeezed(text) not in words:
                    faults.append(f"page {page + 1}: {text!r} is not printed")
            picture = paper.picture(page)
            for panel in slide["panels"]:
                if is_lost(picture, panel):
                    faults.append(f"page {page + 1}: a panel is not printed")
        for address in paper.addresses():
            if not address.startswith(("https:", "http:")):
                faults.append(f"a link to {address}")
    content = path.read_bytes()
    for private in (b"file:", str(ROOT).encode()):
        if private in content:
            faults.append(f"{private.decode()} stands in the file")
    return faults


def is_lost(page, panel):
    """Whether the paper is there more like a white one than like the stored picture."""
    stored = Image.open(io.BytesIO(base64.b64decode(panel["source"].split(",")[1])))
    height = stored.height * panel["shown"] / stored.width
    shown = stored.resize((round(panel["shown"]), round(height)), Image.Resampling.LANCZOS)
    white = Image.new("L", page.size, "white")
    wanted = white.copy()
    wanted.paste(shown.convert("L"), (round(panel["x"]), round(panel["y"])))
    left = panel["x"] + panel["left"]
    top = panel["y"] + panel["top"]
    box = tuple(map(round, (left, top, left + panel["width"], top + panel["height"])))
    # blurred: a thin line that stands a pixel beside its place is there
    there, expected, blank = (
        image.crop(box).filter(ImageFilter.GaussianBlur(3)) for image in (page, wanted, white)
    )
    return difference(there, expected) > difference(blank, expected) / 2


def test_decks_and_handouts_are_printed_whole_with_margins_and_without_private_links(
    printed, promised
):
    assert sum(len(slide["panels"]) for slides in promised.values() for slide in slides) >= 8
    faults = {}
    for deck, slides in promised.items():
        for ending in lectures.KINDS:
            found = faults_of(printed / f"{deck}{ending}.pdf", slides)
            if found:
                faults[f"{deck}{ending}"] = found
    assert faults == {}


def test_the_handout_has_the_notes_on_pages_of_their_own(printed, promised):
    for deck, slides in promised.items():
        with Paper(printed / f"{deck}_handout.pdf") as paper:
            for number in range(len(slides)):
                words = paper.words(2 * number + 1)
                assert "Speakernotes" in words, deck
                assert re.search(r"\b\d+(\.\d+)?min", words), deck


STYLE = "_static/deck/deck.css"
SCRIPT = "_static/deck/deck.js"
# fault -> the file of the site, what is taken out of it, and what is seen on paper then
PLANTED = {
    "the masks stay": (STYLE, r".*reveal-print .*\.mask .*", "a panel is not printed"),
    "the edges are lost": (STYLE, r".*reveal-print .* section .*", "no white left edge"),
    "the notes' edges": (STYLE, r".*reveal-print .*\[data-layout\] .*", "no white left edge"),
    "a page too many": (STYLE, r".*\[data-layout\]:last-child .*", " pages for "),
    "private links": (SCRIPT, r".*keepOnlyLinksOfTheWeb\(\);", "a link to file:"),
    "the steps stay away": (SCRIPT, r"(?=Reveal\.initialize)", "is not printed"),
}
HIDE_STEPS = (
    'document.head.insertAdjacentHTML("beforeend",'
    '"<style>.fragment { visibility: hidden !important }</style>");\n'
)


@pytest.fixture(scope="module")
def copied(site, tmp_path_factory):
    """A folder with one deck, and with what it needs."""
    folder = tmp_path_factory.mktemp("copied")
    shutil.copytree(site / "_static", folder / "_static")
    (folder / "lectures").mkdir()
    shutil.copy(site / "lectures" / "02_layer_norm.html", folder / "lectures")
    return folder


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen_on_paper(copied, promised, tmp_path, fault):
    name, pattern, seen = PLANTED[fault]
    path = copied / name
    right = path.read_text("utf-8")
    wrong, count = re.subn(pattern, HIDE_STEPS if fault == "the steps stay away" else "", right)
    assert count == 1
    try:
        path.write_text(wrong, "utf-8")
        printed = lectures.print_decks(copied, tmp_path)
    finally:
        path.write_text(right, "utf-8")
    slides = promised["02_layer_norm"]
    found = [found for pdf in printed for found in faults_of(pdf, slides)]
    assert any(seen in fault for fault in found), found


def test_a_deck_prints_the_same_twice(copied, tmp_path):
    first = lectures.print_decks(copied, tmp_path / "first")
    again = lectures.print_decks(copied, tmp_path / "again")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_a_deck_that_is_open_for_the_room_says_how_it_is_printed(tab, site, tmp_path):
    tab.size(*SIZE).open((site / "lectures" / "02_layer_norm.html").as_uri(), READY)
    tab.pdf(tmp_path / "deck.pdf")
    with Paper(tmp_path / "deck.pdf") as paper:
        assert len(paper) == 1
        assert "?view=print" in paper.words(0)


def printed_page(tab, address, path):
    tab.open(address, READY)
    tab.pdf(path)
    with Paper(path) as paper:
        words = [paper.words(number) for number in range(len(paper))]
        pictures = [paper.picture(number) for number in range(len(paper))]
    return words, pictures


@pytest.mark.parametrize("page", SHEETS)
def test_a_web_page_is_printed_without_what_is_for_the_screen(tab, site, tmp_path, page):
    words, pictures = printed_page(tab, (site / f"{page}.html").as_uri(), tmp_path / "page.pdf")
    for text, picture in zip(words, pictures, strict=True):
        assert "Skiptocontent" not in text
        assert text, "an empty page"
        for side, stripe in edges(picture, left=20, top=20, right=20, bottom=20).items():
            assert is_white(stripe), side
    assert "Textandfigures:CCBY4.0;code:MITlicence." in words[-1]
    assert not any("MadewithSphinx" in text for text in words)


def test_the_decision_card_is_one_sheet_of_a4(tab, site, tmp_path):
    address = (site / "reference" / "choose.html").as_uri()
    words, pictures = printed_page(tab, address, tmp_path / "card.pdf")
    assert len(words) == 1
    assert pictures[0].size == (794, 1123)  # 210 mm by 297 mm, in pixels of 1/96 inch
    for row in ("Thedecisioncard", "dtype", "weightdecayongains", "fusedornot", "converta"):
        assert row in words[0]
    for side, stripe in edges(pictures[0], left=20, top=20, right=20, bottom=20).items():
        assert is_white(stripe), side


def test_a_skip_link_that_is_printed_is_seen(tab, site, tmp_path):
    folder = tmp_path / "site"
    shutil.copytree(site / "_static", folder / "_static")
    (folder / "exercises").mkdir()
    shutil.copy(site / "exercises" / "02_layer_norm.html", folder / "exercises")
    style = folder / "_static" / "course.css"
    right = style.read_text("utf-8")
    assert right.count(".skip-to-content, ") == 1
    style.write_text(right.replace(".skip-to-content, ", ""), "utf-8")
    address = (folder / "exercises" / "02_layer_norm.html").as_uri()
    words, _ = printed_page(tab, address, tmp_path / "page.pdf")
    assert len(words) > 1  # the link stands at the head of every page but the first
    assert any("Skiptocontent" in text for text in words)
