// A deck on A4, without reveal.js. ?view=handout is for students: two slides a page, with lines to
// write on, and no answers. ?view=script is for the lecturer: each slide beside its notes.

const PAPERS = {
  handout: { beside: () => rules(5), steps: ".fragment:not(.answer, section:has(.poll) *)" },
  script: { beside: (slide) => slide.querySelector("aside.notes"), steps: ".fragment" },
};

function box(kind, ...inside) {
  const made = document.createElement("div");
  made.className = kind;
  made.append(...inside);
  return made;
}

function rules(count) {
  return box("rules", ...Array.from({ length: count }, () => document.createElement("hr")));
}

// When the slide begins and ends, for a lecture that keeps to its minutes.
function clock(start, seconds) {
  return `minute ${start / 60} to ${(start + seconds) / 60}`;
}

function layOut(kind) {
  const paper = PAPERS[kind];
  const slides = [...document.querySelectorAll(".slides > section")];
  document.querySelector('link[href*="reveal.css"]').remove(); // it hides steps and places slides
  document.documentElement.classList.add("paper", kind);
  let start = 0;
  for (const [place, slide] of slides.entries()) {
    for (const step of slide.querySelectorAll(paper.steps)) step.classList.add("visible");
    const seconds = Number(slide.dataset.timing);
    const about = box("about", box("number", `${place + 1}/${slides.length}`));
    if (kind === "script") about.append(box("clock", clock(start, seconds)));
    start += seconds;
    const frame = box("frame");
    const beside = paper.beside(slide);
    slide.replaceWith(box("sheet", box("left", frame, about), beside));
    frame.append(slide);
  }
}
