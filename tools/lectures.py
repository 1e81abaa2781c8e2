"""`make lectures`: the decks with the pages that they link to, and as PDFs, in build/.

While writing:  .venv/bin/python -m tools.lectures lectures/02_layer_norm.md  builds only this deck,
in a few seconds and without the pages, in build/draft.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

from editions import slide
from tools import web
from tools.browser import Browser, BrowserError, Tab, find_chromium
from tools.browser_libraries import fetch_libraries

ROOT = Path(__file__).resolve().parents[1]

DECKS = ROOT / "lectures"
PDFS = ROOT / "build" / "lectures"
KINDS = {"": "?view=print", "_handout": "?view=handout", "_script": "?view=script"}
READY = "document.documentElement?.dataset.ready === '1'"
PRINTABLE = f"{READY} && document.querySelector('.pdf-page, .paper') !== null"
MADE = re.compile(rb"/(CreationDate|ModDate) \(D:\d{14}")


def draft(decks: list[Path], notebooks: Path, work: Path, *options: str) -> list[str]:
    """Build these decks alone; returns what is wrong with them, each with file and line."""
    source = work / "draftsrc"
    shutil.rmtree(source, ignore_errors=True)
    folder = source / "lectures"
    folder.mkdir(parents=True)
    (source / "_files").mkdir()
    for deck in decks:
        shutil.copy(deck, folder)
    names = [f"lectures/{deck.stem}" for deck in decks]
    lines = ["# Drafts", "", "```{toctree}", *names, "```", ""]
    (source / "index.md").write_text("\n".join(lines), "utf-8")
    settings = ["-D", f"course_notebooks={notebooks}", *options]
    complaints = web.sphinx(source, work / "draft", work / "draft-doctrees", *settings)
    return [line.replace(f"{source}/", "") for line in complaints]


def print_decks(site: Path, target: Path) -> list[Path]:
    """Each deck as PDFs: slides, a handout for students, a script for the lecturer."""
    target.mkdir(parents=True, exist_ok=True)
    decks = sorted(site.glob("lectures/*.html"))
    wanted = [(deck, ending) for deck in decks for ending in KINDS]

    def printed(tab: Tab, one: tuple[Path, str]) -> Path:
        deck, ending = one
        return print_deck(tab, deck, ending, target)

    with Browser(find_chromium()) as browser:
        return browser.map(printed, wanted)


def print_deck(tab: Tab, deck: Path, ending: str, target: Path) -> Path:
    path = target / f"{deck.stem}{ending}.pdf"
    tab.size(*slide.SIZE).open(deck.as_uri() + KINDS[ending], PRINTABLE).pdf(path)
    path.write_bytes(without_date(path.read_bytes()))
    return path


def without_date(pdf: bytes) -> bytes:
    """The same slides give the same file, whenever they are printed."""
    return MADE.sub(rb"/\1 (D:20000101000000", pdf)


def stop_at(complaints: list[str]) -> None:
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        sys.exit(f"The decks were not built: {len(complaints)} lines of complaints above.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("decks", nargs="*", type=Path, help="only these, as drafts")
    decks = parser.parse_args().decks
    fetch_libraries()
    if decks:
        stop_at(draft(decks, web.NOTEBOOKS, web.WORK))
        for deck in decks:
            print(f"open {web.WORK / 'draft' / 'lectures' / deck.stem}.html")
        return
    stop_at(web.build())
    for deck in sorted(web.SITE.glob("lectures/*.html")):
        print(f"open {deck}")
    try:
        pdfs = print_decks(web.SITE, PDFS)
    except BrowserError as error:
        sys.exit(f"No PDFs: {error}")
    for path in pdfs:
        print(f"open {path}")


if __name__ == "__main__":
    main()
