// What the interactive figures have in common: elements, and the way from a value to a place.

function svgElement(name, attributes, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function htmlElement(name, attributes, parent) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

// A linear map from [low, high] to [start, end], with its inverse.
function axis(low, high, start, end) {
  const factor = (end - start) / (high - low);
  const map = (value) => start + (value - low) * factor;
  map.inverse = (place) => low + (place - start) / factor;
  return map;
}

function listItem(text) {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}

function numbers(text) {
  return text.split(",").map(Number);
}

// A minus sign, not a hyphen.
function written(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `\u2212${text}` : text;
}

function listOf(host) {
  return htmlElement("ul", { class: "status", "aria-live": "polite" }, host);
}

// A slider with its value written beside it. `number` makes a number of its place, `text` words.
function slider(host, { label, look, number = (place) => place, text }, change) {
  const box = htmlElement("p", { class: "control" }, host);
  const line = htmlElement("label", {}, box);
  const name = htmlElement("span", { class: "value wide" }, line);
  const input = htmlElement("input", { type: "range", ...look }, line);
  const made = { box, input, number: () => number(input.valueAsNumber) };
  made.write = () => {
    name.textContent = `${label}: ${text(made.number())}`;
    input.setAttribute("aria-valuetext", text(made.number()));
  };
  made.set = (place) => {
    input.value = place;
    made.write();
    change();
  };
  input.addEventListener("input", () => made.set(input.valueAsNumber));
  made.write();
  return made;
}

function button(host, words, pressed) {
  const made = htmlElement("button", { type: "button" }, host);
  made.textContent = words;
  made.addEventListener("click", pressed);
  return made;
}

// Powers of ten as they are read: 10⁻⁶.
function power(exponent) {
  const signs = { "-": "⁻" };
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  return `10${[...String(exponent)].map((sign) => signs[sign] ?? digits[sign]).join("")}`;
}

// Two digits and an ordinary unit: 3.4 MB, 12 µs.
function withUnit(value, units) {
  const rounded = Number(value.toPrecision(2));
  const [factor, unit] = units.find(([least]) => rounded >= least) ?? units.at(-1);
  return `${Number((rounded / factor).toPrecision(2))} ${unit}`;
}

// A frame with its two axes: {tick: words} on each, and their names.
function frame(svg, x, y, { across, up, left, bottom, names }) {
  for (const [tick, words] of across) {
    const place = { x: x(tick), y: bottom + 32, "text-anchor": "middle" };
    svgElement("text", place, svg).textContent = words;
    svgElement("line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 5, class: "zero" }, svg);
  }
  for (const [tick, words] of up) {
    const place = { x: left - 8, y: y(tick), "text-anchor": "end", "dominant-baseline": "central" };
    svgElement("text", place, svg).textContent = words;
    svgElement("line", { x1: left - 5, x2: left, y1: y(tick), y2: y(tick), class: "zero" }, svg);
  }
  const [right, top] = [x(across.at(-1)[0]), y(up.at(-1)[0])];
  svgElement("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "zero" }, svg);
  svgElement("line", { x1: left, x2: left, y1: bottom, y2: top, class: "zero" }, svg);
  const below = { x: (left + right) / 2, y: bottom + 57, "text-anchor": "middle" };
  svgElement("text", below, svg).textContent = names[0];
  svgElement("text", { x: left, y: top - 12 }, svg).textContent = names[1];
}

function polyline(svg, look) {
  const line = svgElement("polyline", { fill: "none", ...look }, svg);
  line.draw = (points) => line.setAttribute("points", points.map((p) => p.join(",")).join(" "));
  return line;
}
