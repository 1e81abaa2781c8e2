// Sets formulas for formulas.py: a line of JSON comes in for each, a line of JSON answers it.

const katex = require(process.argv[2]);
const lines = require("readline").createInterface({ input: process.stdin });

// Names that no style sheet knows.
const UNSTYLED = /^(mord|mop|mbin|mrel|mopen|mclose|mpunct|minner|mtight)$/;

function classes(_, names) {
  const kept = names.split(" ").filter((name) => name && !UNSTYLED.test(name));
  if (!kept.length) return "";
  return kept.length === 1 ? ` class=${kept[0]}` : ` class="${kept.join(" ")}"`;
}

function style(_, declarations) {
  return ` style=${declarations.replaceAll(/(?<=[:-])0\./g, ".")}`;
}

// HTML needs no name spaces and few quotes; the LaTeX is kept where it is displayed.
function lighter(html, display) {
  const short = html
    .replaceAll(/ xmlns="[^"]*"/g, "")
    .replaceAll(/ class="([^"]*)"(?=[ >])/g, classes)
    .replaceAll(/ style="([^\s"'=<>`]+?);?"(?=[ >])/g, style);
  return display ? short : short.replaceAll(/<annotation.*?<\/annotation>|<\/?semantics>/gs, "");
}

function answer({ latex, display }) {
  try {
    const html = katex.renderToString(latex, {
      displayMode: display,
      strict: "ignore",
      trust: (asks) => asks.command === "\\htmlClass", // a step of a slide
    });
    return { html: lighter(html, display) };
  } catch (error) {
    return { fault: error.message };
  }
}

lines.on("line", (line) => console.log(JSON.stringify(answer(JSON.parse(line)))));
