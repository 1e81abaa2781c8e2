"""Asks the web whether what the course links to is there: `make links`.

Nothing else here needs a network, and no test asks. What is gone, and a title that arXiv has
otherwise than papers.yaml, is a fault; a site that answers nobody is named, and is none.
"""

import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from xml.etree import ElementTree

from editions.papers import ARXIV, LINK, Paper, register
from tools.reference import ROOT, markdown

AGENT = "Mozilla/5.0 (the link check of a course)"
TIMEOUT_S = 30
PAUSE_S = 1  # between two questions: arXiv asks for it
API = "https://export.arxiv.org/api/query?max_results={count}&id_list={ids}"
ATOM = "{http://www.w3.org/2005/Atom}"
GONE = (404, 410)
NO_ANSWER = (OSError, HTTPException, ElementTree.ParseError)


def pages() -> list[Path]:
    """What a reader opens and what may link to other sites."""
    patterns = [
        "notebooks/*.ipynb",
        "notebooks/solutions/*.ipynb",
        "notebooks/reference/*.md",
        "lectures/*.md",
        "*.md",
    ]
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def named() -> dict[str, list[str]]:
    """{address: the pages that link there}."""
    found: dict[str, list[str]] = {}
    for path in pages():
        for address in dict.fromkeys(address for _, address in LINK.findall(markdown(path))):
            found.setdefault(address, []).append(path.relative_to(ROOT).as_posix())
    return found


class Web:
    """Asks one question after the other."""

    def __init__(self, opener: urllib.request.OpenerDirector | None = None, pause_s: float = 0):
        self.opener = opener or urllib.request.build_opener()
        self.pause_s = pause_s

    def read(self, address: str, most: int | None = None) -> bytes:
        time.sleep(self.pause_s)
        request = urllib.request.Request(address, headers={"User-Agent": AGENT})
        with self.opener.open(request, timeout=TIMEOUT_S) as answer:
            return answer.read(most)

    def trouble(self, address: str) -> tuple[str, bool]:
        """What is wrong with an address, if anything is, and whether that is sure."""
        try:
            self.read(address, most=1)
        except urllib.error.HTTPError as error:
            return f"answers {error.code} {error.reason}", error.code in GONE
        except NO_ANSWER as error:
            return f"does not answer: {error}", False
        return "", False

    def titles(self, ids: Collection[str]) -> dict[str, str]:
        """{id: title}, from arXiv."""
        answer = self.read(API.format(count=len(ids), ids=",".join(ids)))
        found = {}
        for entry in ElementTree.fromstring(answer).iter(f"{ATOM}entry"):
            where = entry.findtext(f"{ATOM}id", "").rpartition("/abs/")[2]
            title = entry.findtext(f"{ATOM}title", "")
            found[re.sub(r"v\d+$", "", where)] = " ".join(title.split())
        return found


def same(title: str, other: str) -> bool:
    """Letters and digits, whatever their case; of formulas arXiv has the LaTeX."""
    letters = [re.sub(r"\$.*?\$|\W|∞|ℓ", "", text).lower() for text in (title, other)]
    return letters[0] == letters[1]


def wrong_titles(web: Web, papers: Iterable[Paper]) -> Iterator[str]:
    ours = {paper.id: paper.title for paper in papers if ARXIV.fullmatch(paper.id)}
    theirs = web.titles(ours)
    for id, title in ours.items():
        if id not in theirs:
            yield f"arXiv has no {id}: {title}"
        elif not same(title, theirs[id]):
            yield f"arXiv {id} is called {theirs[id]!r}, not {title!r}"


def report(web: Web, addresses: dict[str, list[str]], papers: Iterable[Paper]) -> int:
    """Prints what is found; returns how many faults there are."""
    faults = []
    unsure = 0
    for address, where in addresses.items():
        what, sure = web.trouble(address)
        line = f"{address} {what}; in {', '.join(where)}"
        if sure:
            faults.append(line)
        elif what:
            unsure += 1
            print(f"unsure: {line}")
    try:
        faults += wrong_titles(web, papers)
    except NO_ANSWER as error:
        print(f"unsure: arXiv does not tell titles: {error}")
    if unsure == len(addresses) > 0:
        faults.append("nothing answered: is there a network?")
    for line in faults:
        print(f"FAULT: {line}")
    print(f"{len(addresses)} addresses asked, {unsure} unsure, {len(faults)} faults.")
    return len(faults)


def main() -> None:
    web = Web(pause_s=PAUSE_S)
    sys.exit(report(web, named(), register()) > 0)


if __name__ == "__main__":
    main()
