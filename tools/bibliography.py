"""Makes notebooks/reference/bibliography.md of papers.yaml, for `make pages`.

The lessons that cite a paper are those that link to it; of a book without an address, those that
name its authors and year.
"""

import re
from functools import cache
from pathlib import Path

from editions.papers import LINK, Paper, register
from tools.reference import REFERENCE, lessons, markdown
from tools.reference import row as table_row

PAGE = REFERENCE / "bibliography.md"
HEAD = """# Bibliography

What the lessons cite, by the first author, and the lessons that cite it. On the web a link to one
of these shows who wrote it, and its title.
Made from `papers.yaml` by `make pages`: edit the data, not this page.

| authors, year | title | cited in |
| --- | --- | --- |
"""
BESIDE = {  # pages that cite papers, too
    "course_map": "course map",
    "equations": "equations",
    "reported": "reported numbers",
    "claims": "claims",
    "choose": "decision card",
}


@cache
def citing() -> dict[str, tuple[str, str]]:
    """{how the page links to it: its words without line breaks, and all addresses in them}."""
    pages = {f"[{number}](../{path.name})": path for number, path in lessons().items()}
    pages |= {f"[{words}]({name}.md)": REFERENCE / f"{name}.md" for name, words in BESIDE.items()}
    found = {}
    for link, path in pages.items():
        words = markdown(path)
        addresses = "\n".join(address for _, address in LINK.findall(words))
        found[link] = " ".join(words.replace(" and ", " & ").split()), f"\n{addresses}\n"
    return found


def cites(paper: Paper, words: str, addresses: str) -> bool:
    if paper.id:
        return f"\n{paper.address}\n" in addresses
    return re.search(rf"\b{re.escape(paper.cited)}\b", words) is not None


def cited_in(paper: Paper) -> list[str]:
    return [link for link, found in citing().items() if cites(paper, *found)]


def order(paper: Paper) -> tuple[str, int, str]:
    return paper.authors.lower(), paper.year, paper.title


def page() -> str:
    rows = []
    for paper in sorted(register(), key=order):
        title = f"*{paper.title}*"
        if paper.id:
            title = f"{title}, [{paper.place}]({paper.address})"
        rows.append(table_row([paper.cited, title, ", ".join(cited_in(paper))]))
    return HEAD + "".join(rows)


def made() -> dict[Path, str]:
    return {PAGE: page()}
