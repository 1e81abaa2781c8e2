"""Where Colab finds the lessons: the address that CITATION.cff gives as `repository-code`.

Colab opens notebooks of GitHub alone; without an address there no page has a button.
"""

import re
from pathlib import Path

CITATION = Path(__file__).resolve().parents[1] / "CITATION.cff"
BRANCH = "colab"  # tools/colab.py says what it holds
GIVEN = re.compile(r"^repository-code: *[\"']?([^\"'\s]*)", re.M)
WEB = re.compile(r"https?://([^/]+)/\S+")
GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def repository(citation: Path = CITATION) -> str:
    """`owner/name` on GitHub; empty where no address is given, or that of another host."""
    given = GIVEN.search(citation.read_text("utf-8"))
    address = given[1] if given else ""
    if found := GITHUB.fullmatch(address):
        return found[1]
    web = WEB.fullmatch(address)
    if address and (web is None or web[1] == "github.com"):
        raise ValueError(
            f"{citation.name}: repository-code is {address!r}; expected an address such as "
            "https://github.com/OWNER/NAME"
        )
    return ""


def lesson(repository: str, name: str) -> str:
    """The address at which Colab opens a lesson."""
    place = f"{repository}/blob/{BRANCH}/notebooks/{name}.ipynb"
    return f"https://colab.research.google.com/github/{place}"
