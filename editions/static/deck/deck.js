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

function linkToLab(link) {
  const { notebook, cell } = link.dataset;
  link.href = `${asked.get("lab")}/lab/tree/my/${notebook}#cell-id=${cell}`;
}

for (const element of document.querySelectorAll(".math")) setFormula(element);
if (asked.has("lab")) {
  for (const link of document.querySelectorAll("a.cell")) linkToLab(link);
}

let seconds = 0;
for (const slide of document.querySelectorAll("[data-timing]")) {
  seconds += Number(slide.dataset.timing);
}

Reveal.initialize({
  width: 1280,
  height: 720,
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
