// Sets formulas for formulas.py: a line of JSON comes in for each, a line of JSON answers it.

const katex = require(process.argv[2]);
const lines = require("readline").createInterface({ input: process.stdin });

// A page of HTML knows a formula without its name space; the LaTeX is kept where it is displayed.
function lighter(html, display) {
  const short = html.replaceAll(' xmlns="http://www.w3.org/1998/Math/MathML"', "");
  return display ? short : short.replace(/<annotation.*?<\/annotation>/s, "");
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
