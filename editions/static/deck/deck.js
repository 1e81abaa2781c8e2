// A deck: formulas first, so that reveal.js finds the steps inside them. In the address:
// ?lab=http://localhost:8888 links the cells to a running lab; ?view=print for printing, with
// &handout the notes are printed, too.

const asked = new URLSearchParams(location.search);

function setFormula(element) {
  const inNotes = element.closest("aside") !== null;
  katex.render(element.textContent.trim(), element, {
    displayMode: element.tagName === "DIV",
    output: inNotes ? "mathml" : "htmlAndMathml", // the presenter's window has no styles of KaTeX
    strict: "ignore",
    throwOnError: true, // the deck does not start: the tests see it
    trust: (asks) => asks.command === "\\htmlClass",
  });
}

// Whoever sends the address of a deck must not choose what runs on a click: javascript:, data:, …
function runningLab() {
  const address = asked.get("lab");
  if (/^https?:\/\/[^/]/i.test(address)) return address.replace(/\/+$/, "");
  if (address !== null) {
    console.error(`?lab=${address} is no address of a lab: it begins with http:// or https://`);
  }
  return null;
}

function linkToLab(link, lab) {
  const { notebook, cell } = link.dataset;
  link.href = `${lab}/lab/tree/my/${notebook}#cell-id=${cell}`;
}

// A PDF travels without the pages beside it, and would tell where they lay when it was made.
function keepOnlyLinksOfTheWeb() {
  for (const link of document.querySelectorAll("a[href]")) {
    if (!/^https?:/.test(link.getAttribute("href"))) link.removeAttribute("href");
  }
}

for (const element of document.querySelectorAll(".math")) setFormula(element);
const lab = runningLab();
if (lab !== null) {
  for (const link of document.querySelectorAll("a.cell")) linkToLab(link, lab);
}
if (asked.get("view") === "print") keepOnlyLinksOfTheWeb();

let seconds = 0;
for (const slide of document.querySelectorAll("[data-timing]")) {
  seconds += Number(slide.dataset.timing);
}

const style = getComputedStyle(document.documentElement);
const pixels = (name) => parseInt(style.getPropertyValue(name), 10);

Reveal.initialize({
  width: pixels("--slide-width"),
  height: pixels("--slide-height"),
  margin: 0,
  center: false,
  controls: false,
  hash: true,
  pdfSeparateFragments: false,
  plugins: [RevealNotes],
  scrollActivationWidth: null,
  showNotes: asked.has("handout") ? "separate-page" : false,
  slideNumber: "c/t",
  totalTime: seconds,
  transition: "none",
}).then(() => {
  document.documentElement.dataset.ready = "1";
});
