"""The register of what the course cites, notebooks/reference/papers.yaml."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlsplit

import yaml

DATA = Path(__file__).parents[1] / "notebooks" / "reference" / "papers.yaml"
ARXIV = re.compile(r"\d{4}\.\d{4,5}")
DOI = re.compile(r"10\.\d{4,}/\S+")
LINK = re.compile(r"\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]\(([a-z]+://[^)\s]+)\)")  # to another site


@dataclass(frozen=True)
class Paper:
    authors: str
    year: int
    title: str
    id: str = ""  # an old book has none

    @property
    def cited(self) -> str:
        return f"{self.authors} {self.year}"

    @property
    def first(self) -> str:
        """The family name of the first author."""
        return re.split(r",| & | and | et al", self.authors)[0]

    @property
    def address(self) -> str:
        if ARXIV.fullmatch(self.id):
            return f"https://arxiv.org/abs/{self.id}"
        if DOI.fullmatch(self.id):
            return f"https://doi.org/{quote(self.id, safe='/')}"  # a bracket would end the link
        return self.id

    @property
    def place(self) -> str:
        """The id as a reader knows it."""
        if ARXIV.fullmatch(self.id):
            return f"arXiv {self.id}"
        if DOI.fullmatch(self.id):
            return f"doi {self.id}"
        return urlsplit(self.id).netloc.removeprefix("www.")


@cache
def register() -> tuple[Paper, ...]:
    return tuple(Paper(**entry) for entry in yaml.safe_load(DATA.read_text("utf-8")))


@cache
def by_id() -> dict[str, Paper]:
    return {paper.id: paper for paper in register() if paper.id}


@cache
def by_address() -> dict[str, Paper]:
    return {paper.address: paper for paper in register() if paper.id}
