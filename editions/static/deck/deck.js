// A deck. In the address: ?lab=http://localhost:8888 links the cells to a running lab; ?view=print
// prints the slides, ?view=handout and ?view=script are papers for the students and for the
// lecturer (paper.js).

const asked = new URLSearchParams(location.search);
const view = asked.get("view");

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

// Inside an interactive figure the arrow keys move its dots, not the slides; Escape leaves it.
function keepKeys(figure) {
  figure.dataset.preventSwipe = "";
  figure.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.activeElement.blur();
    event.stopPropagation();
  });
}

for (const figure of document.querySelectorAll(".interactive")) keepKeys(figure);
const lab = runningLab();
if (lab !== null) {
  for (const link of document.querySelectorAll("a.cell")) linkToLab(link, lab);
}
if (view !== null) keepOnlyLinksOfTheWeb();
if (view !== "script") {
  // the presenter's window has no styles of KaTeX: of a formula in notes the MathML is left
  for (const formula of document.querySelectorAll("aside.notes .katex-html")) formula.remove();
}

// The pages of a PDF are all that is left when a laptop fails: a poll gets a page before its answer.
function askBefore(slide) {
  const question = slide.cloneNode(true);
  question.removeAttribute("id");
  question.classList.add("asked");
  question.querySelector("aside.notes").remove();
  for (const step of question.querySelectorAll(".fragment")) {
    step.classList.remove("fragment", "right");
    if (!step.closest(".poll")) step.style.visibility = "hidden";
  }
  slide.before(question);
}

if (view === "print") {
  for (const slide of document.querySelectorAll("section:has(.poll)")) askBefore(slide);
}

function start() {
  let seconds = 0;
  for (const slide of document.querySelectorAll("[data-timing]")) {
    seconds += Number(slide.dataset.timing);
  }

  const style = getComputedStyle(document.documentElement);
  const pixels = (name) => parseInt(style.getPropertyValue(name), 10);

  return Reveal.initialize({
    width: pixels("--slide-width"),
    height: pixels("--slide-height"),
    margin: 0,
    center: false,
    controls: false,
    display: "flex",
    hash: true,
    pdfSeparateFragments: false,
    plugins: [RevealNotes],
    scrollActivationWidth: null,
    slideNumber: "c/t",
    totalTime: seconds,
    transition: "none",
  });
}

function isReady() {
  document.documentElement.dataset.ready = "1";
}

if (view in PAPERS) {
  layOut(view);
  isReady();
} else {
  start().then(isReady);
}
