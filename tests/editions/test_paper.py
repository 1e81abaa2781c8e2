"""What comes out of the printer: decks, handouts, web pages. Pages are looked at as pictures."""

import base64
import io
import math
import re
import shutil

import pytest
from PIL import Image, ImageFilter

from editions.slide import SIZE
from tests.editions.conftest import COPIED, ROOT
from tests.editions.paper import Paper, difference, edges, is_white, ruled, squeezed
from tests.editions.site import READY
from tools import lectures

# pixels of 1/96 inch; a sheet of Letter ends 9 mm before a sheet of A4, above and below
MARGINS = {
    "": {"left": 40, "top": 30, "right": 40, "bottom": 12},
    "_handout": {"left": 50, "top": 50, "right": 50, "bottom": 34},
    "_script": {"left": 50, "top": 50, "right": 50, "bottom": 34},
}
A4 = (794, 1123)
SHORT = 12  # letters; so short an answer, as a number, may stand elsewhere on its page
LINES = 5  # to write on, below each slide of a handout
SHEETS = ("01_batch_norm", "reference/equations_variance_three_ways", "solutions/03_rms_norm")
RIGHTS = "©2026,theauthorsofnormlib.Textandfigures:CCBY4.0;code:MITlicence."

# What the slides promise: the words of all their steps (not of formulas, whose letters a PDF has in
# an order of its own), those among them that answer what was asked (beside a formula each piece of
# the sentence), the notes, and each panel that waits under a mask, with its place in the picture.
PROMISED = """[...document.querySelectorAll(".pdf-page")].map((page) => {
  const asked = page.querySelector("section.asked") !== null; // a poll, before its answer
  const spoken = (selector) => [...page.querySelectorAll(selector)].filter(
    (part) => !part.querySelector(".math, p, li, a")
      && (!asked || part.checkVisibility({visibilityProperty: true})));
  const texts = (selector) => spoken(selector).map((part) => part.textContent);
  const slide = (part) => !part.closest("aside, .interactive"); // its lines stand side by side
  const words = spoken("section :is(h1, h2, p, li, pre, td, .sources a)").filter(slide);
  const answer = "section:has(.poll) .fragment:not(.poll *), .answer";
  const answers = words.filter((part) => part.closest(answer)).map((part) => part.textContent);
  for (const sentence of page.querySelectorAll(".answer :is(p, li):has(.math)")) {
    const pieces = [...sentence.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    answers.push(...pieces.map((node) => node.data));
  }
  const panels = [...page.querySelectorAll(".mask i:first-child")].map((mask) => {
    const image = mask.closest(".figure").querySelector("img");
    const wide = parseFloat(image.style.width);
    const [left, top, width, height] = ["left", "top", "width", "height"].map(
      (name) => parseFloat(mask.style[name]) / wide);
    return {left, top, width, height, source: image.src};
  });
  const seconds = Number(page.querySelector("section").dataset.timing);
  const right = page.querySelectorAll(".poll .right").length;
  return {asked, words: words.map((part) => part.textContent), panels, seconds, right,
          answers, notes: texts("aside.notes p")};
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


def missing(texts, words, where):
    for text in texts:
        if squeezed(text) not in words:
            yield f"{where}: {text!r} is not printed"


def slides_faults(words, pictures, slides):
    if len(words) != len(slides):
        yield f"{len(words)} pages for {len(slides)} slides"
    for number, (printed, slide) in enumerate(zip(words, slides, strict=False), 1):
        yield from missing(slide["words"], printed, f"page {number}")
        if slide["asked"] and "✓" in printed:
            yield f"page {number}: the answer is marked before the vote"


def handout_faults(words, pictures, slides):
    if len(words) != math.ceil(len(slides) / 2):
        yield f"{len(words)} pages for {len(slides)} slides"
    for place, slide in enumerate(slides):
        printed = words[min(place // 2, len(words) - 1)]
        open_words = [text for text in slide["words"] if text not in slide["answers"]]
        yield from missing(open_words, printed, f"slide {place + 1}")
        for text in [*slide["answers"], *slide["notes"]]:
            if len(text) > SHORT and squeezed(text) in printed:
                yield f"slide {place + 1}: {text!r} is not for students"
    if "✓" in "".join(words):
        yield "the answer of a poll is marked"
    lines = sum(map(ruled, pictures))
    if lines != LINES * len(slides):
        yield f"{lines} lines to write on for {len(slides)} slides"


def script_faults(words, pictures, slides):
    if not 2 < len(slides) / len(words) < 4.5:
        yield f"{len(words)} pages for {len(slides)} slides"
    printed = "".join(words)
    start = 0
    for place, slide in enumerate(slides):
        end = start + slide["seconds"] / 60
        texts = [*slide["words"], *slide["notes"], f"minute {start:g} to {end:g}"]
        yield from missing(texts, printed, f"slide {place + 1}")
        start = end
    marked = printed.count("✓")
    if marked != sum(slide["right"] for slide in slides):
        yield f"{marked} answers of polls are marked"


FAULTS = {"": slides_faults, "_handout": handout_faults, "_script": script_faults}


def faults_of(path, slides, ending):
    """What is wrong with the slides, the handout or the script of a deck."""
    with Paper(path) as paper:
        numbers = range(len(paper))
        words = [paper.words(number) for number in numbers]
        pictures = [paper.picture(number) for number in numbers]
        boxes = [(number, box) for number in numbers for box in paper.pictures_on(number)]
        addresses = paper.addresses()
    if ending:  # on the other papers a poll is there once
        slides = [slide for slide in slides if not slide["asked"]]
    faults = list(FAULTS[ending](words, pictures, slides))
    for number, picture in enumerate(pictures, 1):
        for side, stripe in edges(picture, **MARGINS[ending]).items():
            if not is_white(stripe):
                faults.append(f"page {number}: no white {side} edge")
    for place, slide in enumerate(slides, 1):
        for panel in slide["panels"]:
            if all(is_lost(pictures[number], box, panel) for number, box in boxes):
                faults.append(f"slide {place}: a panel is not printed")
    for address in addresses:
        if not address.startswith(("https:", "http:")):
            faults.append(f"a link to {address}")
    content = path.read_bytes()
    for private in (b"file:", str(ROOT).encode()):
        if private in content:
            faults.append(f"{private.decode()} stands in the file")
    return faults


def is_lost(page, box, panel):
    """Whether the paper is there more like a white one than like the panel of the picture."""
    stored = Image.open(io.BytesIO(base64.b64decode(panel["source"].split(",")[1]))).convert("L")
    shown = page.crop(box)
    ratio = shown.width / stored.width
    if abs(shown.height - ratio * stored.height) > 2:
        return True
    left, top = panel["left"] * shown.width, panel["top"] * shown.width
    right, bottom = left + panel["width"] * shown.width, top + panel["height"] * shown.width
    part = tuple(map(round, (left, top, right, bottom)))
    wanted = stored.resize(shown.size, Image.Resampling.LANCZOS)
    white = Image.new("L", shown.size, "white")
    # blurred: a thin line that stands a pixel beside its place is there
    there, expected, blank = (
        image.crop(part).filter(ImageFilter.GaussianBlur(3)) for image in (shown, wanted, white)
    )
    return difference(there, expected) > difference(blank, expected) / 2


def test_slides_handouts_and_scripts_are_printed_whole(printed, promised):
    assert sum(len(slide["panels"]) for slides in promised.values() for slide in slides) >= 8
    polls = sum(slide["asked"] for slides in promised.values() for slide in slides)
    assert sum(slide["right"] for slides in promised.values() for slide in slides) == polls >= 9
    assert sum(bool(slide["answers"]) for slides in promised.values() for slide in slides) >= 20
    faults = {}
    for deck, slides in promised.items():
        assert any("If you are late, leave out" in note for note in slides[0]["notes"]), deck
        page = f"On laptops it is the page figures/{deck}.html"
        assert any(page in note for slide in slides for note in slide["notes"]), deck
        for ending in lectures.KINDS:
            found = faults_of(printed / f"{deck}{ending}.pdf", slides, ending)
            if found:
                faults[f"{deck}{ending}"] = found
    assert faults == {}


SLIDES = "_static/deck/deck.css"
PAPER = "_static/deck/paper.css"
LAYOUT = "_static/deck/paper.js"
SCRIPT = "_static/deck/deck.js"
LOST = "a panel is not printed"
NO_LEFT = "no white left edge"
# fault -> what is printed, the file of the site, what is taken out of it, and what is seen then
PLANTED = {
    "the masks stay": ("", SLIDES, r".*reveal-print .*\.mask .*", LOST),
    "the handout's masks stay": ("_handout", PAPER, r".*\.mask .*", LOST),
    "the edges are lost": ("", SLIDES, r".*reveal-print .* section .*", NO_LEFT),
    "the script's edges": ("_script", PAPER, r"margin: 16mm 15mm", NO_LEFT),
    "a page too many": ("_handout", PAPER, r"129mm", " pages for "),
    "private links": ("_script", SCRIPT, r".*keepOnlyLinksOfTheWeb\(\);", "a link to file:"),
    "the steps stay away": ("", SCRIPT, r"(?=return Reveal\.initialize)", "is not printed"),
    "a poll is told": ("_handout", LAYOUT, r", section.*\*(?=\))", "is not for students"),
    "an answer is told": ("_handout", LAYOUT, r"\.answer, ", "is not for students"),
    "the answers are kept": ("_script", LAYOUT, r'"\.fragment"', "answers of polls are marked"),
    "a poll is asked with its answer": ("", SCRIPT, r"(?<=\)\) )askBefore\(slide\)", " pages for "),
    "a poll is answered first": ("", SCRIPT, r"step\.classList\.remove.*", "before the vote"),
    "no room to write": ("_handout", LAYOUT, r"(?<=rules\()5", "lines to write on"),
    "no clock": ("_script", LAYOUT, r".*box\(\"clock\".*", "'minute 0 to 1' is not printed"),
}
INSTEAD = {
    "the steps stay away": 'document.head.insertAdjacentHTML("beforeend",'
    '"<style>.fragment { visibility: hidden !important }</style>");\n',
    "a page too many": "140mm",
    "a poll is asked with its answer": "{}",
    "the answers are kept": '"b"',
    "the script's edges": "margin: 16mm 5mm",
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen_on_paper(tab, copied, promised, tmp_path, fault):
    ending, name, pattern, seen = PLANTED[fault]
    path = copied / name
    right = path.read_text("utf-8")
    wrong, count = re.subn(pattern, INSTEAD.get(fault, ""), right)
    assert count == 1
    try:
        path.write_text(wrong, "utf-8")
        deck = copied / "lectures" / f"{COPIED}.html"
        printed = lectures.print_deck(tab, deck, ending, tmp_path)
    finally:
        path.write_text(right, "utf-8")
    found = faults_of(printed, promised[COPIED], ending)
    assert any(seen in fault for fault in found), found


def test_a_deck_prints_the_same_twice(copied, tmp_path):
    first = lectures.print_decks(copied, tmp_path / "first")
    again = lectures.print_decks(copied, tmp_path / "again")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_a_deck_that_is_open_for_the_room_says_how_it_is_printed(tab, site, tmp_path):
    tab.size(*SIZE).open((site / "lectures" / f"{COPIED}.html").as_uri(), READY)
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
    assert_clean(words, pictures)


def assert_clean(words, pictures):
    for number, (text, picture) in enumerate(zip(words, pictures, strict=True), start=1):
        assert "Skiptocontent" not in text
        margin = f"{RIGHTS}{number}/{len(words)}"
        assert text.startswith(margin)
        assert text != margin, "an empty page"
        for side, stripe in edges(picture, left=20, top=20, right=20, bottom=20).items():
            assert is_white(stripe), side
    assert not any("MadewithSphinx" in text for text in words)


# The words of each fold that stands in no other one.
FOLDS = """[...document.querySelectorAll("details:not(details *)")].map((fold) => ({
  summary: fold.querySelector("summary").textContent,
  inside: [...fold.querySelectorAll("p, li, pre")].filter(
    (part) => !part.querySelector(".math, p")).map((part) => part.textContent)}))"""
LETTERS = """[...document.querySelectorAll("article :is(p, li, td, th, summary, pre)")].filter(
  (part) => part.textContent.trim() && part.checkVisibility()).map((part) => [
    parseFloat(getComputedStyle(part).fontSize) * 72 / 96, part.tagName])"""
LONGEST = 15  # pages of a lesson, on the shorter paper (Letter)


def test_a_lesson_is_printed_short_closed_and_legible(tab, site, tmp_path):
    address = (site / "02_layer_norm.html").as_uri()
    words, pictures = printed_page(tab, address, tmp_path / "lesson.pdf")
    assert_clean(words, pictures)
    assert len(words) <= LONGEST
    whole = "".join(words)
    folds = tab.run(FOLDS)
    assert len(folds) > 10
    for fold in folds:
        assert squeezed(f"{fold['summary']} (closed: not printed)") in whole
    hidden = [text for fold in folds for text in fold["inside"] if len(text) > 80]
    assert len(hidden) > 10
    assert [text for text in hidden if squeezed(text) in whole] == []

    tab.run("document.querySelector('details').open = true")
    tab.pdf(tmp_path / "opened.pdf")
    with Paper(tmp_path / "opened.pdf") as paper:
        opened = "".join(paper.words(number) for number in range(len(paper)))
    assert opened.count("(closed:notprinted)") == whole.count("(closed:notprinted)") - 1
    assert squeezed(folds[0]["inside"][0][:60]) in opened

    tab.media("print")
    letters = tab.run(LETTERS)
    tab.media()
    assert min(size for size, name in letters if name != "PRE") >= 9.99
    assert min(size for size, name in letters if name == "PRE") >= 8.49


def printed_words(tab, address, path):
    """The words of each page, and the numbers of those with a picture."""
    tab.open(address, READY)
    tab.pdf(path)
    with Paper(path) as paper:
        words = [paper.words(number) for number in range(len(paper))]
        illustrated = [number for number in range(len(paper)) if paper.pictures_on(number)]
    return words, illustrated


def test_a_lesson_with_a_long_table_wastes_no_page_and_splits_no_row(tab, site, tmp_path):
    address = (site / "08_capstone.html").as_uri()
    words, _ = printed_words(tab, address, tmp_path / "lesson.pdf")
    assert len(words) <= LONGEST
    rows = tab.run('[...document.querySelectorAll("td:nth-child(4)")].map((td) => td.textContent)')
    assert len(rows) >= 10  # the decision card
    assert [row for row in rows if not any(squeezed(row) in text for text in words)] == []
    assert min(map(len, words[:-1])) > 500


CAPTIONS = """[...document.querySelectorAll(".caption-of-picture:not(details *)")].map(
  (caption) => caption.textContent)"""


def test_a_picture_is_printed_on_the_page_of_its_caption(tab, site, tmp_path):
    address = (site / "02_layer_norm.html").as_uri()
    words, illustrated = printed_words(tab, address, tmp_path / "lesson.pdf")
    captions = tab.run(CAPTIONS)
    assert len(captions) >= 3
    for caption in captions:
        assert any(squeezed(caption) in words[number] for number in illustrated), caption


SOLVED = "return weight / (rho * alpha)"


def test_a_sheet_of_exercises_has_room_to_write_and_no_solution(tab, site, tmp_path):
    address = (site / "exercises" / "05_dyt.html").as_uri()
    words, pictures = printed_page(tab, address, tmp_path / "sheet.pdf")
    assert_clean(words, pictures)
    lines = tab.run('document.querySelectorAll(".rules hr").length')
    assert sum(map(ruled, pictures)) == lines >= 20
    assert min(map(len, words)) > 300  # no page with what was left over
    whole = "".join(words)
    assert "whatisfrozen" in whole  # the table whose middle row is to be solved
    for absent in (squeezed(SOLVED), "raiseNotImplementedError", "Thesolutions"):
        assert absent not in whole


def test_a_sheet_of_solutions_has_the_code(tab, site, tmp_path):
    address = (site / "exercises" / "05_dyt_solutions.html").as_uri()
    words, pictures = printed_page(tab, address, tmp_path / "solutions.pdf")
    assert_clean(words, pictures)
    assert min(map(len, words)) > 300
    assert squeezed(SOLVED) in "".join(words)


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
    style = folder / "_static" / "print.css"
    right = style.read_text("utf-8")
    assert right.count(".skip-to-content, ") == 1
    style.write_text(right.replace(".skip-to-content, ", ""), "utf-8")
    address = (folder / "exercises" / "02_layer_norm.html").as_uri()
    words, _ = printed_page(tab, address, tmp_path / "page.pdf")
    assert len(words) > 1  # the link stands at the head of every page but the first
    assert any("Skiptocontent" in text for text in words)
