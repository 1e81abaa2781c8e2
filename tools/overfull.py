"""What stands beyond the edges of a deck's slides, measured in Chromium."""

from pathlib import Path

from editions import slide
from tools.browser import Browser, Tab, find_chromium

READY = "document.documentElement?.dataset.ready === '1'"
FOOT = 32  # pixels at the lower edge for the slide's number and its links

SKIPPED = "aside, svg, .katex-mathml, .figure > *, a.cell, .licence, .where, .logo"
# What ends lowest and what ends furthest to the right, with all steps shown.
MEASURE = r"""((number, right, foot) => {
  Reveal.slide(number, 0, 99);
  const slide = Reveal.getCurrentSlide();
  const found = {heading: slide.querySelector("h1, h2")?.textContent, beyond: 1};
  for (const element of slide.querySelectorAll("*")) {
    if (element.closest(SKIPPED)) continue;
    const box = element.getBoundingClientRect();
    const inside = element.tagName === "PRE" ? element.scrollWidth - element.clientWidth : 0;
    const beyond = Math.max(box.right + inside - right, box.bottom - foot);
    if (!box.width || beyond < found.beyond) continue;
    const words = element.textContent || element.getAttribute("alt") || element.tagName;
    Object.assign(found, {beyond, what: words.trim().split("\n").pop().slice(-40)});
  }
  return found;
})""".replace("SKIPPED", repr(SKIPPED))


def overfull(tab: Tab, deck: Path) -> list[str]:
    """A sentence for each slide that does not hold what stands on it."""
    tab.size(*slide.SIZE).open(deck.as_uri(), READY)
    edges = f"{slide.WIDTH - slide.SIDE + 1}, {slide.HEIGHT - FOOT}"
    lines = []
    for number in range(tab.run("Reveal.getTotalSlides()")):
        seen = tab.run(f"{MEASURE}({number}, {edges})")
        if "what" in seen:
            lines.append(
                f"{deck.stem}, slide {number + 1} ({seen['heading']}): “{seen['what']}” ends "
                f"{seen['beyond']:.0f} pixels beyond the edge. Leave something out, begin "
                "another slide, or make a picture smaller: ![…](photo.jpg){height=300px}"
            )
    return lines


def overfull_decks(decks: list[Path]) -> list[str]:
    with Browser(find_chromium()) as browser, browser.tab() as tab:
        return [line for deck in decks for line in overfull(tab, deck)]
