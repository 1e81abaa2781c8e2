"""Every page of the web edition, loaded once; the tests read what was seen there."""

import re
from dataclasses import dataclass
from pathlib import Path

from normcourse.lesson import Notebook

READY = "document.documentElement?.dataset.ready === '1'"
DESKTOP = (1280, 900, False)
PHONE = (390, 844, True)

# What a page, or a slide, says about its licence.
LICENCES = """((part) => [...part.querySelectorAll("a[rel=license]")].map(
  (link) => `${link.textContent}: ${link.href}`))"""
LICENCE = "CC BY 4.0: https://creativecommons.org/licenses/by/4.0/"

# What a page says of itself. Words are looked at outside of code and of formulas.
LOOK = r"""(() => {
  const all = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  const words = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const skipped = text.parentElement.closest("pre, code, script, style, noscript, .katex");
    if (!skipped) words.push(text.data);
  }
  return {
    words: words.join(" "),
    formulas: all("div.math annotation", (e) => e.textContent),
    pictures: all(".cell_output img", (e) => e.alt),
    broken: all("img", (e) => e).filter((e) => !e.naturalWidth).map((e) => e.src),
    nameless: all("img:not([alt])", (e) => e.src),
    ids: all("[id]", (e) => e.id),
    links: all("a[href]", (e) => e.href),
    twiceSaid: all(".caption-of-picture:not([aria-hidden=true])", (e) => e.textContent),
    openFolds: all("details.fold[open]", (e) => e.outerHTML.slice(0, 90)),
    answers: all("details.answer [id^=cell-]", (e) => e.id),
    licences: LICENCES(document),
  };
})()""".replace("LICENCES", LICENCES)

# What is wider than the window.
TOO_WIDE = """(() => {
  const root = document.documentElement;
  const beyond = [...document.querySelectorAll("body *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > innerWidth + 1 && !element.closest(
      ".sidebar-drawer, .toc-drawer, pre, .table-wrapper, .katex, svg, .skip-to-content");
  });
  const page = root.scrollWidth > root.clientWidth ? ["the page"] : [];
  return [...page, ...beyond.slice(0, 3).map((element) => element.outerHTML.slice(0, 90))];
})()"""

# What axe needs minutes for, and finds nothing in: the inner elements of formulas (screen readers
# read MathML instead), and the thousandth keyword in the colour of the first.
LIGHTEN = """(() => {
  for (const formula of document.querySelectorAll(".katex")) formula.replaceWith("formula");
  const seen = new Set();
  for (const span of document.querySelectorAll(".highlight pre span")) {
    if (seen.has(span.className)) span.replaceWith(span.textContent);
    else seen.add(span.className);
  }
})()"""
# The sidebar is the same on all pages: axe looks at it on these.
WITH_SIDEBAR = ("index.html", "07a_published_speed.html")
BUT_SIDEBAR = '{exclude: [".sidebar-drawer"]}'
AXE = """axe.run(%s, {runOnly: %s, resultTypes: ["violations"]}).then((found) =>
  found.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) =>
    v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" | ")))"""
EVERYTHING = '["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]'
CONTRAST = '{type: "rule", values: ["color-contrast"]}'

# A colour on its way to the dark one has the contrast of neither.
AT_ONCE = """document.head.insertAdjacentHTML(
  "beforeend", "<style>* { transition: none !important }</style>")"""

FENCE = re.compile(r"^```.*?^```", re.M | re.S)
DISPLAYED = re.compile(r"^[> ]*\$\$\n?(.+?)\n?[> ]*\$\$", re.M | re.S)


@dataclass
class Visit:
    page: str
    seen: dict
    too_wide: dict[str, list[str]]  # {desktop or phone: what is wider than its window}
    errors: list[str]
    outgoing: list[str]
    kilobytes: float
    barriers: dict[str, list[str]]  # {light or dark: what axe finds}


def pages(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))


def is_deck(page: str) -> bool:
    return page.startswith("lectures/")


def weight(requests: list[str]) -> float:
    """Kilobytes of the files that the page asked for, each once."""
    local = [address for address in requests if address.startswith("file://")]
    files = {Path(address.removeprefix("file://").split("?")[0]) for address in local}
    return sum(path.stat().st_size for path in files if path.is_file()) / 1000


def barriers(tab, rules: str, where: str = "document") -> list[str]:
    """What axe, whose script the page has, finds there."""
    return tab.run(AXE % (where, rules))


def visitor(site: Path, axe: str):
    """A function that looks at one page: on a desktop, on a phone, and with axe's eyes."""

    def visit(tab, page: str) -> Visit:
        tab.media(prefers_color_scheme="light").size(*DESKTOP).open((site / page).as_uri(), READY)
        seen = tab.run(LOOK)
        too_wide = {"desktop": tab.run(TOO_WIDE), "phone": tab.size(*PHONE).run(TOO_WIDE)}
        met = [list(tab.errors), tab.outgoing(), weight(tab.requests)]
        # last: axe asks for the style sheets, which a page from file:// may not
        tab.size(*DESKTOP).run(f"{LIGHTEN}; {AT_ONCE}; {axe}; 0")
        where = "document" if page in WITH_SIDEBAR else BUT_SIDEBAR
        found = {"light": barriers(tab, EVERYTHING, where)}
        tab.media(prefers_color_scheme="dark")
        found["dark"] = barriers(tab, CONTRAST, where)
        return Visit(page, seen, too_wide, *met, found)

    return visit


def notebook_of(page: str, notebooks: Path) -> Notebook | None:
    """What the page was made from, if it was made from a notebook."""
    path = notebooks / page.replace(".html", ".ipynb")
    return Notebook(path) if path.is_file() else None


def displayed_formulas(notebook: Notebook) -> list[str]:
    """The LaTeX between double dollars, in the order of the page, without spaces at line ends."""
    found = []
    for cell in notebook.markdown:
        found += DISPLAYED.findall(FENCE.sub("", cell.source))
    return [squeezed(latex) for latex in found]


def squeezed(latex: str) -> str:
    return " ".join(latex.replace("\n> ", "\n").split())
