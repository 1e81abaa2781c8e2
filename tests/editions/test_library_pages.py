"""The pages of the library, as they are seen: nothing public is missing, nothing is left raw."""

import importlib
import inspect
import re

import pytest

from editions.equations import equations
from editions.extension.library import SECTION, TAGS
from editions.prepare import ROOMS
from normcourse.lesson import TAG
from tests.editions.conftest import ROOT
from tests.editions.site import DESKTOP, READY, squeezed
from tests.failing import fail

KNOWN = equations(ROOT / "notebooks/reference/equations.md")
INTERNAL = {"kernels"}  # what fused runs; nobody calls it
FIELDS = {"Args": "Parameters:", "Returns": "Returns:", "Raises": "Raises:", "Source": "Source:"}
RAW = re.compile(r":\w+:|``|\*\*|::| -- |\\|^\.\. ", re.M)
ENTRIES = """[...document.querySelectorAll("dl.py > dt[id]")].map((dt) => {
  const body = dt.nextElementSibling;
  const own = (selector) => [...body.querySelectorAll(selector)]
    .filter((e) => e.closest("dl.py") === dt.parentElement);
  const words = (e) => e.innerText.trim();
  return {
    name: dt.id,
    signature: words(dt),
    source: dt.querySelector("a.reference.internal:has(.viewcode-link)")?.href,
    summary: words(body.querySelector("p")),
    formulas: own("div.math .katex annotation").map((e) => e.textContent),
    fields: own("dl.field-list > dt").map((e) => e.textContent),
    parts: own("dl.field-list > dd").map(words),
    code: own("pre").map(words),
    plain: own("p, li").map(words),
  };
})"""


def public():
    """{the full name of a public function or class: it}."""
    modules = [importlib.import_module(f"normlib.{room}") for room in ROOMS]
    return {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in modules
        for name in module.__all__
    }


@pytest.fixture(scope="module")
def entries(chromium, site):
    """{full name: what a reader sees of it}."""
    width, height, phone = DESKTOP
    found = {}
    with chromium.tab() as tab:
        for room in ROOMS:
            page = site / "library" / f"{room}.html"
            tab.size(width, height, phone).open(page.as_uri(), READY)
            found |= {entry["name"]: entry for entry in tab.run(ENTRIES)}
    return found


@pytest.fixture(scope="module")
def documented(entries):
    """The docstring of each public name, and what is seen of it."""
    return {name: (inspect.getdoc(thing), entries.get(name)) for name, thing in public().items()}


def test_every_room_has_a_page():
    rooms = {path.parent.name for path in (ROOT / "normlib").glob("*/__init__.py")}
    assert rooms - INTERNAL == set(ROOMS)


def test_every_public_name_has_its_entry(entries):
    assert set(public()) - set(entries) == set()


def test_an_entry_has_the_signature_of_the_code(entries):
    for name, thing in public().items():
        parameters = list(inspect.signature(thing).parameters)
        seen = re.findall(r"(?:^|[(\n ]|\*\*)(\w+)(?=: )", entries[name]["signature"])
        assert seen == parameters, name


def test_an_entry_has_the_formulas_of_its_tags(documented):
    for name, (docstring, entry) in documented.items():
        parts = filter(TAGS.fullmatch, docstring.split("\n\n"))
        tags = [tag for part in parts for tag in re.findall(TAG, part)]
        wanted = [squeezed(KNOWN[tag].latex) for tag in tags]
        assert [squeezed(latex) for latex in entry["formulas"]] == wanted, name


def test_an_entry_has_the_sections_of_its_docstring(documented):
    for name, (docstring, entry) in documented.items():
        assert entry["fields"] == [FIELDS[found] for found in SECTION.findall(docstring)], name


def test_an_entry_has_the_plain_formulas_and_the_example_of_its_docstring(documented):
    for name, (docstring, entry) in documented.items():
        parts = docstring.split("\n\n")
        wanted = [part for part in parts if part.startswith(("    ", ">>> "))]
        assert entry["code"] == [inspect.cleandoc(part) for part in wanted], name


def test_no_markup_is_left_in_the_words(entries):
    for name, entry in entries.items():
        for words in entry["plain"]:
            if raw := RAW.search(words):
                fail(name, f"{raw[0]!r} is seen in {words!r}", edit="the docstring")


def test_a_source_link_leads_to_the_code(entries, site):
    for name in public():
        page, _, anchor = entries[name]["source"].partition("#")
        text = (site / page.removeprefix(f"{site.as_uri()}/")).read_text("utf-8")
        assert f'id="{anchor}"' in text, name
        assert anchor == name.rpartition(".")[2]


def test_rms_norm_as_a_reader_sees_it(entries):
    seen = entries["normlib.functional.rms_norm"]
    assert seen["summary"] == (
        "Divide every sample by the root mean square of its trailing dimensions."
    )
    assert "weight: Tensor | None = None," in seen["signature"]
    assert r"\sqrt{\frac{1}{D} \sum_{j=1}^{D} x_{j}^{2} + \varepsilon}" in squeezed(
        seen["formulas"][0]
    )
    parameters, returns, raises, source = seen["parts"]
    assert parameters.startswith("input: (..., *normalized_shape).\n")
    assert returns == "input's shape and dtype."
    assert raises == "MismatchError (shapes), ValueError (eps)."
    assert source == "Zhang & Sennrich 2019, equation (4); eps inside the root as in torch."


def test_the_front_page_leads_to_every_room(tab, site):
    tab.open((site / "index.html").as_uri(), READY)
    links = tab.run('[...document.querySelectorAll(".sidebar-tree a")].map((e) => e.href)')
    for room in ROOMS:
        assert (site / "library" / f"{room}.html").as_uri() in links


def test_a_paper_of_a_docstring_is_a_link_that_has_its_title(site):
    page = (site / "library" / "functional.html").read_text("utf-8")
    assert re.search(r'<a [^>]+ title="Stollenwerk 2025: The [^"]+">arXiv 2503.21708</a>', page)
