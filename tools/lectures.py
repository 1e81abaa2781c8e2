"""`make lectures`: the decks with the pages that they link to, and as PDFs, in build/.

While writing:  .venv/bin/python -m tools.lectures lectures/02_layer_norm.md  builds only this deck,
in a few seconds and without the pages, in build/draft. Decks of one's own are in my/lectures.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

from editions import prepare, slide
from tools import web
from tools.browser import Browser, BrowserError, Tab, find_chromium
from tools.browser_libraries import fetch_libraries
from tools.overfull import overfull_decks

ROOT = Path(__file__).resolve().parents[1]

DECKS = ROOT / "lectures"
MY_DECKS = ROOT / "my" / "lectures"
PDFS = ROOT / "build" / "lectures"
KINDS = {"": "?view=print", "_handout": "?view=handout", "_script": "?view=script"}
READY = "document.documentElement?.dataset.ready === '1'"
PRINTABLE = f"{READY} && document.querySelector('.pdf-page, .paper') !== null"
MADE = re.compile(rb"/(CreationDate|ModDate) \(D:\d{14}")
HEADING = re.compile(rb"node\d{8}")  # of a table: Chromium counts on from what it drew before


def draft(decks: list[Path], notebooks: Path, work: Path, *options: str) -> list[str]:
    """Build these decks alone; returns what is wrong with them, each with file and line."""
    source = work / "draftsrc"
    shutil.rmtree(source, ignore_errors=True)
    (source / "_files").mkdir(parents=True)
    for deck in decks:
        prepare.copy(deck, source / f"{page_of(deck)}.md")
        if is_own(deck):
            prepare.copy_beside(deck.parent, source / page_of(deck).parent)
    names = [str(page_of(deck).as_posix()) for deck in decks]
    lines = ["# Drafts", "", "```{toctree}", *names, "```", ""]
    (source / "index.md").write_text("\n".join(lines), "utf-8")
    settings = ["-D", f"course_notebooks={notebooks}", *options]
    complaints = web.sphinx(source, work / "draft", work / "draft-doctrees", *settings)
    return [line.replace(f"{source}/", "") for line in complaints]


def is_own(deck: Path) -> bool:
    folder = deck.resolve().parent
    return folder != DECKS and folder.parts[-2:] == ("my", "lectures")


def page_of(deck: Path) -> Path:
    """lectures/02_layer_norm, or my/lectures/monday."""
    return Path(prepare.OWN_DECKS if is_own(deck) else "lectures", deck.stem)


def made_decks(site: Path) -> list[Path]:
    """The course's decks, then those of one's own."""
    return [*sorted(site.glob("lectures/*.html")), *sorted(site.glob("my/lectures/*.html"))]


def print_decks(site: Path, target: Path) -> list[Path]:
    """Each deck as PDFs: slides, a handout for students, a script for the lecturer."""
    wanted = [(deck, ending) for deck in made_decks(site) for ending in KINDS]

    def printed(tab: Tab, one: tuple[Path, str]) -> Path:
        deck, ending = one
        folder = target / deck.parent.parent.relative_to(site)  # one's own in the folder my
        folder.mkdir(parents=True, exist_ok=True)
        return print_deck(tab, deck, ending, folder)

    with Browser(find_chromium()) as browser:
        return browser.map(printed, wanted)


def print_deck(tab: Tab, deck: Path, ending: str, target: Path) -> Path:
    path = target / f"{deck.stem}{ending}.pdf"
    tab.size(*slide.SIZE).open(deck.as_uri() + KINDS[ending], PRINTABLE).pdf(path)
    path.write_bytes(as_if_first(path.read_bytes()))
    return path


def as_if_first(pdf: bytes) -> bytes:
    """The same slides give the same file, whenever they are printed and after whatever else."""
    headings: dict[bytes, bytes] = {}

    def counted(found: re.Match) -> bytes:
        return headings.setdefault(found[0], b"node%08d" % len(headings))

    return HEADING.sub(counted, MADE.sub(rb"/\1 (D:20000101000000", pdf))


def stop_at(complaints: list[str]) -> None:
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        sys.exit(f"The decks were not built: {len(complaints)} lines of complaints above.")


def stop_at_overfull(pages: list[Path]) -> None:
    """The decks are built; where a Chromium is, their author is told what does not fit."""
    if not pages:
        return
    try:
        lines = overfull_decks(pages)
    except BrowserError as error:
        print(f"Whether the slides hold what stands on them was not measured: {error}")
        return
    if lines:
        sys.exit("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("decks", nargs="*", type=Path, help="only these, as drafts")
    decks = parser.parse_args().decks
    fetch_libraries()
    if decks:
        stop_at(draft(decks, web.NOTEBOOKS, web.WORK))
        pages = [web.WORK / "draft" / f"{page_of(deck)}.html" for deck in decks]
        for page in pages:
            print(f"open {page}")
        stop_at_overfull(pages)
        return
    stop_at(web.build(own_decks=MY_DECKS))
    decks = made_decks(web.SITE)
    for deck in decks:
        print(f"open {deck}")
    try:
        pdfs = print_decks(web.SITE, PDFS)
    except BrowserError as error:
        sys.exit(f"No PDFs: {error}")
    for path in pdfs:
        print(f"open {path}")
    stop_at_overfull([deck for deck in decks if deck.parent.parent.name == "my"])


if __name__ == "__main__":
    main()
