"""sources.yaml has a row for each section of the five articles, and its links lead somewhere."""

import re

import pytest

from editions import prepare
from tools import claims as claims_tool
from tools import reference
from tools import sources as tool

DATA = tool.sources()
RENEW = "edit notebooks/reference/sources.yaml, then run: make pages"
PLACES = tool.places(DATA)
FIELDS = {"article", "section", "lessons", "claims", "left_out"}


def test_every_section_of_the_five_articles_has_one_row():
    have = [(row["article"], row["section"]) for row in DATA["rows"]]
    want = [
        (article["name"], section)
        for article in DATA["articles"]
        for section in article["sections"]
    ]
    assert sorted(set(want) - set(have)) == [], f"sections without a row: {RENEW}"
    assert have == want, f"rows stand once each, in the order of the sections: {RENEW}"


def test_the_articles_are_as_long_as_they_are():
    """Counted in the articles: a section that is lost from the data is missed here."""
    counted = {article["name"]: len(article["sections"]) for article in DATA["articles"]}
    assert counted == {
        "KEXUE": 7,
        "KEXUE-DERIV": 32,
        "NORM-DEEP": 15,
        "RMSNORM-ARTICLE": 9,
        "GRAD-SAT": 28,
    }


@pytest.mark.parametrize("row", DATA["rows"], ids=lambda row: f"{row['article']} {row['section']}")
def test_a_row_leads_to_a_lesson_or_says_why_not(row):
    assert row.keys() <= FIELDS
    assert row.get("lessons") or row.get("left_out"), f"say where, or why not; {RENEW}"
    for item in row.get("left_out", []):
        assert item.keys() == {"what", "why"} and all(item.values()), RENEW


@pytest.mark.parametrize("place", PLACES)
def test_what_a_link_leads_to_is_there(place):
    fault = tool.fault(place)
    assert fault is None, f"named in {'; '.join(PLACES[place])}: {fault}. {RENEW}"


def test_every_claim_stands_in_a_row_of_each_article_that_makes_it():
    stands = {}
    for row in DATA["rows"]:
        for claim in row["claims"]:
            stands.setdefault(claim, set()).add(row["article"])
    names = "|".join(sorted((article["name"] for article in DATA["articles"]), key=len)[::-1])
    makers = {
        claim["id"]: set(re.findall(rf"(?<![\w-])(?:{names})(?![\w-])", claim["where"]))
        for claim in claims_tool.claims()
    }
    assert stands.keys() <= makers.keys(), "a row names a claim that claims.yaml does not have"
    missing = {claim: who - stands.get(claim, set()) for claim, who in makers.items()}
    assert {claim: who for claim, who in missing.items() if who} == {}, RENEW


def test_the_page_leads_to_headings_that_are_there():
    """What the tool wrote, read again."""
    found = re.findall(r"\]\(([^)#\s]+)#([^)\s]+)\)", tool.PAGE.read_text("utf-8"))
    assert len(found) > 200
    for address, anchor in found:
        path = (reference.REFERENCE / address).resolve()
        if path.suffix == ".ipynb":
            there = {heading.replace(" ", "-") for heading in reference.headings(path)}
        else:
            there = set(map(reference.anchor, reference.headings(path)))
            there |= set(re.findall(r'<a id="([^"]+)"', path.read_text("utf-8")))
        assert anchor in there, f"sources.md leads to {address}#{anchor}, which is not there"


def test_the_readme_leads_to_the_way_in():
    readme = (reference.ROOT / "README.md").read_text("utf-8")
    (way_in,) = re.findall(r"\(notebooks/reference/sources\.md#([^)]+)\)", readme)
    assert way_in in map(reference.anchor, reference.headings(tool.PAGE))


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("00z Clipping", "there is no lesson 00z"),
        (
            "04a Gone",
            "04a_checking_gradients.ipynb has no heading 'Gone'; it has: A failure you can see",
        ),
        ("course_map Gone", "course_map.md has no heading 'Gone'"),
        ("EQ-" + "GONE", "equations.md has no"),
    ],
)
def test_a_place_that_went_away_is_named(place, says):
    assert says in tool.fault(place)
    with_it = DATA | {"rows": [{"article": "KEXUE", "section": "§4", "lessons": [place]}]}
    assert tool.places(with_it)[place] == ["KEXUE §4"]


def test_claims_in_a_row_are_named_by_their_ends():
    shown = re.sub(r"\(.+?\)", "", tool.claims(["A01", "A02", "A04", "A05", "A06"]))
    assert shown == "[A01], [A02], [A04] to [A06]"


def test_on_the_web_a_heading_of_a_lesson_has_small_letters_and_no_signs():
    link = tool.link("04a How steep can it be?")
    assert link.endswith("(../04a_checking_gradients.ipynb#How-steep-can-it-be?)")
    on_the_web = prepare.mend_links(link, tool.PAGE, prepare.NOTEBOOKS)
    assert on_the_web.endswith("(../04a_checking_gradients.ipynb#how-steep-can-it-be)")
