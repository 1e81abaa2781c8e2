"""Links to papers, issues and files: their form, and that none is missing. No test asks the web.

A paper that is linked to is in the register, notebooks/reference/papers.yaml; who is cited by name
and year is there, too, and linked to on the same page.
"""

import io
import re
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from docutils import nodes
from docutils.utils import new_document

from editions.extension import papers as titles
from editions.papers import ARXIV, DOI, LINK, Paper, by_address, by_id, register
from tests.failing import ROOT, fail_if_any, said
from tools import bibliography, links
from tools.reference import markdown

REGISTER = "notebooks/reference/papers.yaml"
NO_PAPER = {"https://www.nvidia.com/en-us/data-center/h100/": "a data sheet"}
GITHUB = re.compile(
    r"https://github\.com/[\w.-]+/[\w.-]+/"
    r"(?:(?:issues|pull)/\d+|(?:blob|tree)/[0-9a-f]{40}(?:/[^\s#]+)?)(?:#\S+)?"
)
CODE = re.compile(
    r"```.*?```|\$\$.*?\$\$|\$[^$\n]+\$|<[^>]*>|^:::\{sources\}[^\n]*", re.S | re.M
)  # and the ids of a slide's sources
SPAN = re.compile(r"`([^`\n]+)`")
ID = r"\barXiv:?\s*(\d{4}\.\d{4,5})"
BARE = {
    "an id of arXiv": ID,
    "a DOI": r"\b10\.\d{4,}/\S+",
    "an issue": r"(?<![\w#&/])#\d+\b",
    "a commit": r"\bcommit [0-9a-f]{7,40}\b",
    "an address": r"\bhttps?://\S+|\bgithub\.com/\S+",
}
FILE = re.compile(r"(?:[\w.-]+/)+[\w.-]+\.(?:py|cu|cuh|cpp|h)")
NAME = r"(?:[Vv]an )?[A-Z][\w’'-]*[a-z]"
OTHERS = rf"(?:, {NAME})*(?:,? (?:and|&) {NAME})?(?: et al\.| and others(?: at [A-Z][\w ]+)?)?"
CITATION = re.compile(rf"\b({NAME})({OTHERS}) \(?((?:19|20)\d\d)\b")


@cache
def read() -> dict[str, str]:
    """What a reader opens, but for the README and the pages for who works on it."""
    inside = [path for path in links.pages() if path.parent != ROOT and path.name != "README.md"]
    return {path.relative_to(ROOT).as_posix(): markdown(path) for path in inside}


def fault(address: str) -> str | None:
    """What is wrong with the form of an address."""
    if address in by_address() or address in NO_PAPER:
        return None
    if urlsplit(address).netloc != "github.com":
        return f"{address} is not the address of a paper in {REGISTER}: add it there"
    if not GITHUB.fullmatch(address):
        return f"{address} may move: link to /issues/N, /pull/N or /blob/ and the 40 digits"
    return None


def bare(words: str) -> list[str]:
    """What is named without a link."""
    words = CODE.sub(" ", LINK.sub(" ", words))
    found = [text for text in SPAN.findall(words) if FILE.fullmatch(text) and not here(text)]
    words = SPAN.sub(" ", words)
    return found + [match[0] for pattern in BARE.values() for match in re.finditer(pattern, words)]


def here(file: str) -> bool:
    return any((folder / file).exists() for folder in (ROOT, ROOT / "notebooks"))


def uncited(words: str, linked: set[str]) -> list[str]:
    """Who is cited and is not in the register, or is there with an address that is not linked."""
    names = {paper.first for paper in register()}
    faults = []
    for match in CITATION.finditer(CODE.sub(" ", words)):
        first, others, year = match[1], match[2], int(match[3])
        papers = [paper for paper in register() if (paper.first, paper.year) == (first, year)]
        addresses = {paper.address for paper in papers if paper.id}
        if not papers and (others or first in names):
            faults.append(f"{match[0]} is not in {REGISTER}")
        elif addresses and not addresses & linked:
            faults.append(f"{match[0]} is cited without a link to {' or '.join(addresses)}")
    return faults


def linked_in(words: str) -> set[str]:
    return {address for _, address in LINK.findall(words)}


def of_lesson(name: str) -> set[str]:
    """What a page links to; for a solution, its lesson's links as well."""
    lesson = name.replace("solutions/", "")
    return linked_in(read()[name]) | linked_in(read()[lesson])


def test_a_link_leads_to_a_paper_of_the_register_or_to_one_state_of_a_file():
    fail_if_any(
        said(name, what, edit="the link")
        for name, words in read().items()
        for what in filter(None, map(fault, sorted(linked_in(words))))
    )


def test_what_a_page_names_is_a_link():
    fail_if_any(
        said(name, f"{what!r} is no link", edit=f"it: [{what}](https://…)")
        for name, words in read().items()
        for what in bare(words)
    )


def test_who_is_cited_is_in_the_register_and_linked():
    lessons = [name for name in read() if name.endswith(".ipynb")]
    assert len(lessons) > 40
    fail_if_any(
        said(name, what, edit=f"{REGISTER}, or the name and the year")
        for name in lessons
        for what in uncited(read()[name], of_lesson(name))
    )


def test_the_words_of_a_link_to_a_paper_name_its_author_and_year():
    for name, words in read().items():
        for text, address in LINK.findall(words):
            paper = by_address().get(address)
            match = CITATION.search(text)
            if paper and match:
                assert (match[1], int(match[3])) == (paper.first, paper.year), (name, text)


@pytest.mark.parametrize("paper", register(), ids=lambda paper: paper.id or paper.cited)
def test_an_entry_has_a_form_and_is_cited(paper):
    assert all(text == text.strip() for text in (paper.authors, paper.title, paper.id))
    assert paper.title and not paper.title.endswith(".")
    assert re.fullmatch(rf"(?:[Vv]an )?{NAME}.*|Team OLMo", paper.authors)
    assert 1900 < paper.year < 2100
    if paper.id:
        assert ARXIV.fullmatch(paper.id) or DOI.fullmatch(paper.id) or paper.id[:8] == "https://"
        assert LINK.fullmatch(f"[x]({paper.address})"), "the address ends a link too early"
    if ARXIV.fullmatch(paper.id):
        assert 0 <= paper.year - 2000 - int(paper.id[:2]) <= 2, "of another year than its id"
    assert bibliography.cited_in(paper), f"nothing cites it: take it out of {REGISTER}"


def test_the_papers_of_docstrings_are_in_the_register():
    files = sorted((ROOT / "normlib").rglob("*.py"))
    found = {id for path in files for id in re.findall(ID, path.read_text("utf-8"))}
    assert len(found) >= 5
    assert found <= by_id().keys()


def test_no_paper_is_entered_twice():
    ids = [paper.id for paper in register() if paper.id]
    assert len(ids) == len(set(ids))
    assert len({paper.title.lower() for paper in register()}) == len(register())


# What the rules see


@pytest.mark.parametrize(
    "address",
    [
        "https://arxiv.org/abs/1502.99999",
        "https://arxiv.org/abs/1607.06450v1",
        "https://arxiv.org/pdf/1607.06450",
        "https://github.com/pytorch/pytorch/blob/main/torch/nn/functional.py",
        "https://github.com/pytorch/pytorch",
        "https://example.org/paper",
    ],
)
def test_a_wrong_address_is_seen(address):
    assert address in fault(address)


@pytest.mark.parametrize(
    "words",
    [
        "see arXiv 1607.06450",
        "arXiv:1607.06450, section 3",
        "pytorch #133085",
        "as in owner/name, commit bfea86b",
        "doi 10.1093/biomet/6.1.1",
        "github.com/jiachenzhu/DyT, issue 18",
        "at https://kexue.fm/archives/10831",
        "in `rezero/transformer/rztx.py`",
    ],
)
def test_what_is_no_link_is_seen(words):
    assert len(bare(words)) == 1
    assert bare(f"[{words}](https://arxiv.org/abs/1607.06450)") == []
    assert bare("`normlib/fused/operators.py`, $x_{#1}$, [#12](https://a.b/12), &#39;") == []


def test_a_citation_without_its_paper_is_seen():
    address = "https://arxiv.org/abs/1607.06450"
    assert uncited("Ba, Kiros & Hinton 2016 and Student 1908", set())[0].endswith(address)
    assert uncited("Ba et al. (2016) say, in May 2026, Fisher 1935", {address}) == []
    assert uncited("Ba et al. 2017", {address}) == [f"Ba et al. 2017 is not in {REGISTER}"]
    assert uncited("Nobody & Someone 2016", {address})
    assert uncited("Stollenwerk 2024", {address})


def test_a_link_to_a_paper_has_its_authors_and_title_on_the_web():
    page = new_document("page")
    for address in ("https://arxiv.org/abs/1607.06450", "https://example.org"):
        page += nodes.paragraph("", "", nodes.reference("", "words", refuri=address))
    titles.name_papers(None, page)
    paper, other = page.findall(nodes.reference)
    assert paper["reftitle"] == "Ba, Kiros & Hinton 2016: Layer Normalization"
    assert "reftitle" not in other


# The command that asks the web, with an opener that answers from here


class Here:
    """Answers as sites do."""

    FEED = (
        '<feed xmlns="http://www.w3.org/2005/Atom">'
        "<entry><id>http://arxiv.org/abs/1607.06450v1</id><title>Layer\n  Normalization</title>"
        "</entry><entry><id>http://arxiv.org/abs/1803.08494v3</id><title>Groups</title></entry>"
        "</feed>"
    )

    def __init__(self, **codes):
        self.codes = codes
        self.asked = []

    def open(self, request, timeout):
        self.asked.append(request.full_url)
        site = urlsplit(request.full_url).netloc
        code = self.codes.get(site.partition(".")[0], 200)
        if code == 0:
            raise urllib.error.URLError("no route")
        if code != 200:
            raise urllib.error.HTTPError(request.full_url, code, "No", {}, None)
        return io.BytesIO(self.FEED.encode())


def test_what_is_gone_is_a_fault_and_a_site_that_refuses_is_none(capsys):
    sites = {f"https://{name}.org/x": ["lesson"] for name in ("fine", "gone", "shy", "off")}
    here = Here(gone=404, shy=403, off=0)
    assert links.report(links.Web(here), sites, []) == 1
    told = capsys.readouterr().out
    assert "FAULT: https://gone.org/x answers 404 No; in lesson" in told
    assert "unsure: https://shy.org/x answers 403 No" in told
    assert "unsure: https://off.org/x does not answer" in told
    assert "fine.org" not in told
    assert here.asked[:4] == list(sites)


def test_that_nothing_answers_is_a_fault(capsys):
    assert links.report(links.Web(Here(off=0)), {"https://off.org/x": ["lesson"]}, []) == 1
    assert "FAULT: nothing answered: is there a network?" in capsys.readouterr().out


def test_titles_are_compared_with_those_of_arxiv():
    papers = [
        Paper("Ba, Kiros & Hinton", 2016, "Layer normalization", "1607.06450"),
        Paper("Wu & He", 2018, "Group Normalization", "1803.08494"),
        Paper("Nobody", 2018, "No Such Thing", "1803.99999"),
        Paper("Student", 1908, "The Probable Error of a Mean", "10.1093/biomet/6.1.1"),
    ]
    here = Here()
    assert list(links.wrong_titles(links.Web(here), papers)) == [
        "arXiv 1803.08494 is called 'Groups', not 'Group Normalization'",
        "arXiv has no 1803.99999: No Such Thing",
    ]
    assert here.asked[0].endswith("id_list=1607.06450,1803.08494,1803.99999")


def test_no_answer_about_titles_is_no_fault(capsys):
    assert links.report(links.Web(Here(export=503)), {}, register()) == 0
    assert "arXiv does not tell titles" in capsys.readouterr().out


def test_a_server_is_asked(tmp_path):
    """Python's own opener, and a file in the place of the web."""
    (tmp_path / "page").write_text("here")
    web = links.Web()
    assert web.trouble((tmp_path / "page").as_uri()) == ("", False)
    what, sure = web.trouble((tmp_path / "gone").as_uri())
    assert "does not answer" in what
    assert not sure


def test_every_page_that_links_is_asked_about():
    asked = links.named()
    assert {paper.address for paper in register() if paper.id} <= asked.keys()
    assert any(Path(page).name == "README.md" for pages in asked.values() for page in pages)
