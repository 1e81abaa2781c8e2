"""Makes notebooks/reference/bibliography.md of papers.yaml, for `make pages`.

The lessons that cite a paper are those that link to it; of a book without an address, those that
name its authors and year.
"""

import re
from functools import cache
from pathlib import Path

from editions.papers import LINK, Paper, register
from tools.reference import REFERENCE, lessons, markdown

PAGE = REFERENCE / "bibliography.md"
HEAD = """# Bibliography

What the course cites, by the first author; behind each arrow are the lessons and pages that cite
it. On the web a link to one of these shows who wrote it, and its title.
Made from `papers.yaml` by `make pages`: edit the data, not this page.

"""
BESIDE = {  # pages that cite papers, too
    "course_map": "course map",
    "equations": "equations",
    "reported": "reported numbers",
    "claims": "claims",
    "choose": "decision card",
}


@cache
def citing() -> dict[str, tuple[str, set[str]]]:
    """{how the page links to it: its words without line breaks, and the addresses in them}."""
    pages = {f"[{number}](../{path.name})": path for number, path in lessons().items()}
    pages |= {f"[{words}]({name}.md)": REFERENCE / f"{name}.md" for name, words in BESIDE.items()}
    found = {}
    for link, path in pages.items():
        words = markdown(path)
        addresses = {address for _, address in LINK.findall(words)}
        found[link] = " ".join(words.replace(" and ", " & ").split()), addresses
    return found


def cites(paper: Paper, words: str, addresses: set[str]) -> bool:
    if paper.id:
        return paper.address in addresses
    return re.search(rf"\b{re.escape(paper.cited)}\b", words) is not None


def cited_in(paper: Paper) -> list[str]:
    return [link for link, found in citing().items() if cites(paper, *found)]


def order(paper: Paper) -> tuple[str, int, str]:
    return paper.authors.lower(), paper.year, paper.title


def entry(paper: Paper) -> str:
    place = f", [{paper.place}]({paper.address})" if paper.id else ""
    return f"- {paper.cited}. *{paper.title}*{place} → {', '.join(cited_in(paper))}\n"


def page() -> str:
    return HEAD + "".join(map(entry, sorted(register(), key=order)))


def made() -> dict[Path, str]:
    return {PAGE: page()}
