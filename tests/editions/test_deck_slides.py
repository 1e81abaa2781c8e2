"""Every slide of every deck, as it is seen in a room: at its own size, with all its steps shown."""

import json
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from editions.slide import SIZE
from tests.editions.conftest import COPIED
from tests.editions.site import EVERYTHING, LICENCE, LICENCES, LIGHTEN, READY, barriers

SMALLEST = 18  # pixels
IN_CHARTS = 22

# What one slide says of itself. In the last 32 pixels stand its number and its link.
LOOK = r"""((number) => {
  Reveal.slide(number, 0, 99);
  const slide = Reveal.getCurrentSlide();
  const beyond = [];
  const small = [];
  for (const element of slide.querySelectorAll("*")) {
    if (element.closest("aside, svg, .katex-mathml, .figure > *")) continue;
    const box = element.getBoundingClientRect();
    const foot = element.closest("a.cell, .licence, .where") ? innerHeight : innerHeight - 32;
    const wide = element.scrollWidth > element.clientWidth + 1 && element.tagName === "PRE";
    if (box.width && (box.right > 1241 || box.bottom > foot || box.left < 0 || wide))
      beyond.push(`${element.tagName}.${element.className} ${Math.round(box.right)} ` +
                  `${Math.round(box.bottom)} ${element.textContent.slice(0, 60)}`);
    const texts = [...element.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE);
    const words = texts.some((text) => /[^\s\u200b]/.test(text.data));
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (words && size < SMALLEST) small.push(`${size} ${element.textContent.slice(0, 40)}`);
  }
  for (const text of slide.querySelectorAll(".chart text, .interactive text")) {
    const shown = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    if (shown < IN_CHARTS) small.push(`${shown} ${text.textContent}`);
  }
  const letters = [...slide.querySelectorAll(".chart text")];
  for (const text of letters) {
    const box = text.getBoundingClientRect();
    const chart = text.closest(".chart").getBoundingClientRect();
    if (box.left < chart.left - 1 || box.right > chart.right + 1) beyond.push(text.textContent);
    for (const other of letters) {
      const its = other.getBoundingClientRect();
      const apart = box.right <= its.left || its.right <= box.left ||
                    box.bottom - 6 <= its.top || its.bottom - 6 <= box.top;
      if (other !== text && !apart) beyond.push(`${text.textContent} on ${other.textContent}`);
    }
  }
  for (const image of slide.querySelectorAll("img")) {
    if (!(Number(image.dataset.label) >= SMALLEST)) small.push(`label ${image.dataset.label}`);
    if (!image.naturalWidth || !image.alt) beyond.push("picture without pixels or alt text");
  }
  const marked = [...slide.querySelectorAll(".math")].filter((e) => !e.querySelector(".katex"));
  return {beyond, small, unset: marked.length,
          hidden: slide.querySelectorAll(".fragment:not(.visible)").length};
})""".replace("SMALLEST", str(SMALLEST)).replace("IN_CHARTS", str(IN_CHARTS))


LINKS = "[...document.querySelectorAll('a.cell')].map((link) => link.href)"


@dataclass
class Visit:
    slides: dict[int, dict]  # {number: what is wrong with it}
    page: list[str]  # what is wrong with the page
    links: list[str]  # to the lesson's cells
    licence: list[str]  # on the last slide


def look(tab, deck, axe, first=None):
    """All slides of a deck, or the first ones, in one load of the page."""
    tab.size(*SIZE).open(deck.as_uri(), READY)
    numbers = range(first or tab.run("Reveal.getTotalSlides()"))
    slides = {number + 1: tab.run(f"{LOOK}({number})") for number in numbers}
    licence = tab.run(f"{LICENCES}(Reveal.getSlides().at(-1))")
    seen = Visit(slides, [*tab.errors, *tab.outgoing()], tab.run(LINKS), licence)
    tab.run(f"{LIGHTEN}; {axe}; 0")
    for number in numbers:  # last: axe asks for the style sheets, which a page from file:// may not
        tab.run(f"Reveal.slide({number}, 0, 99)")
        slides[number + 1]["axe"] = barriers(tab, EVERYTHING)
    return seen


@pytest.fixture(scope="module")
def decks(site):
    found = sorted(site.glob("lectures/*.html"))
    assert found
    return found


@pytest.fixture(scope="module")
def visits(chromium, decks, axe):
    """{deck: what was seen of it}."""
    seen = chromium.map(lambda tab, deck: look(tab, deck, axe), decks)
    return {deck.stem: visit for deck, visit in zip(decks, seen, strict=True)}


def test_every_slide_fits_is_readable_and_open_to_all(visits):
    for deck, visit in visits.items():
        assert visit.page == [], deck
        for number, kinds in visit.slides.items():
            assert {kind: found for kind, found in kinds.items() if found} == {}, (deck, number)


PLANTED = {
    "a word of 12 pixels": ("<p style='font-size:12px'>small</p>", "small"),
    "a line below the slide": ("<p style='margin-top:900px'>low</p>", "beyond"),
    "letters of a chart on one another": (
        "<svg class='chart' width='300'><text y='30'>one</text><text y='32'>two</text></svg>",
        "beyond",
    ),
    "a chart of small letters": (
        "<svg class='chart' width='300' font-size='21'><text y='30'>one</text></svg>",
        "small",
    ),
    "a figure to move that is drawn too small": (
        "<div class='interactive'><svg viewBox='0 0 1500 99'><text y='30'>one</text></svg></div>",
        "small",
    ),
    "a picture whose labels nobody measured": ("<img src='x.png' alt='x'>", "small"),
    "a picture without alt text": ("<img src='x.png'>", "axe"),
    "a formula that is not set": ("<span class='math'>\\alpha</span>", "unset"),
    "a pale word": ("<p style='color:#ddd'>pale</p>", "axe"),
}


ELSEWHERE = '<img src="https://example.org/x.png" alt="x">'


@pytest.fixture(scope="module")
def planted(chromium, copied, axe):
    """What is seen of a deck whose first slides have one of these faults each."""
    deck = copied / "lectures" / "planted.html"
    markups = [markup for markup, _ in PLANTED.values()] + [ELSEWHERE]
    parts = (copied / "lectures" / f"{COPIED}.html").read_text("utf-8").split("<aside")
    assert len(parts) > len(markups) + 1
    for place, markup in enumerate(markups):
        parts[place] += markup
    deck.write_text("<aside".join(parts), "utf-8")
    with chromium.tab() as tab:
        return look(tab, deck, axe, first=len(markups) + 1)


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(planted, fault):
    number = list(PLANTED).index(fault) + 1
    _, kind = PLANTED[fault]
    assert planted.slides[number][kind]
    assert not planted.slides[len(planted.slides)][kind]


def test_a_picture_of_the_web_is_seen(planted):
    assert any("example.org" in address for address in planted.page)


def test_a_deck_is_shown_with_the_keyboard_alone(tab, decks):
    tab.size(*SIZE).open(decks[0].as_uri(), READY)
    tab.key("ArrowRight")
    assert tab.run("Reveal.getIndices().h") == 1
    tab.key("End")
    assert tab.run("Reveal.isLastSlide()")
    tab.key("Home")
    assert tab.run("Reveal.isFirstSlide()")
    tab.key("o")
    assert tab.run("Reveal.isOverview()")
    tab.key("Escape")
    assert not tab.run("Reveal.isOverview()")


FIRST_INPUT = "Reveal.getCurrentSlide().querySelector('.handle').getAttribute('aria-valuenow')"


def test_the_keys_of_an_interactive_figure_do_not_turn_the_slides(tab, site):
    tab.size(*SIZE).open((site / "lectures/02_layer_norm.html").as_uri(), READY)
    tab.run("Reveal.slide(Reveal.getSlides().findIndex((s) => s.querySelector('.interactive')))")
    there = tab.run("Reveal.getIndices().h")
    before = float(tab.run(FIRST_INPUT))
    tab.run("document.body.focus()")
    while not tab.run("document.activeElement.matches('.present .handle')"):
        tab.key("Tab")
    tab.key("ArrowRight")
    assert float(tab.run(FIRST_INPUT)) == before + 0.25
    assert tab.run("Reveal.getIndices().h") == there
    tab.key("Escape")
    assert not tab.run("Reveal.isOverview()")
    tab.key("ArrowRight")
    assert tab.run("Reveal.getIndices().h") == there + 1
    assert tab.outgoing() == tab.errors == []


SPEAKERS_NOTES = "document.querySelector('.speaker-controls-notes .value').innerHTML.trim()"


def test_the_speakers_window_has_notes_clock_and_pace(chromium, tab, decks):
    tab.size(*SIZE).open(decks[0].as_uri(), READY)
    with chromium.opened_by(lambda: tab.key("s")) as speaker:
        for number in range(tab.run("Reveal.getTotalSlides()")):
            tab.run(f"Reveal.slide({number})")
            notes = tab.run("Reveal.getSlideNotes()").strip()
            speaker.wait(f"{SPEAKERS_NOTES} === {json.dumps(notes)}")
            # a number in the notes is no larger than its sentence
            assert speaker.run("document.querySelectorAll('.value .value').length") == 0
        assert speaker.run("getComputedStyle(document.querySelector('.pacing')).display") != "none"
        assert not speaker.errors


def test_a_slide_leads_to_its_cell_on_the_page(visits, site):
    for deck, visit in visits.items():
        lesson = deck.split("--")[0]
        page = (site / f"{lesson}.html").read_text("utf-8")
        assert visit.links
        for link in visit.links:
            address, _, anchor = link.partition("#")
            assert address == (site / f"{lesson}.html").as_uri()
            assert f'id="{anchor}"' in page


REFUSED = [
    "javascript:alert(1)//",
    "data:text/html,x",
    "//example.org",
    "localhost:8888",
    "http://",
    "",
]


@pytest.mark.parametrize("address", REFUSED)
def test_only_the_address_of_a_lab_is_taken_as_one(tab, decks, visits, address):
    tab.open(f"{decks[0].as_uri()}?lab={quote(address)}", READY)
    assert tab.run(LINKS) == visits[decks[0].stem].links
    assert tab.errors == [
        f"?lab={address} is no address of a lab: it begins with http:// or https://"
    ]


@pytest.mark.parametrize("address", ["http://localhost:8888", "HTTPS://lab.example/course/"])
def test_the_address_of_a_lab_may_have_a_folder_and_end_in_a_slash(tab, decks, address):
    tab.open(f"{decks[0].as_uri()}?lab={quote(address)}", READY)
    link = tab.run("document.querySelector('a.cell').getAttribute('href')")
    lesson = decks[0].stem
    assert link.startswith(f"{address.rstrip('/')}/lab/tree/my/{lesson}.ipynb#cell-id=")
    assert tab.errors == []


def test_the_last_slide_says_under_which_licence_the_deck_is(visits):
    assert {visit.licence == [LICENCE] for visit in visits.values()} == {True}
