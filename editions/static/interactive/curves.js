// RMSNorm's output at one entry, as a curve over this entry while the others stay; and the curves
// of DyT and DyISRU, whose α and c the reader sets.
// <div class="interactive" data-figure="curves" data-row="0.5,-1.25,…" data-layers="dyt,dyisru">

(() => {
  const WIDTH = 640;
  const HEIGHT = 340;
  const EDGE = 34;
  const LIMIT = 6;
  const TICKS = [-6, -4, -2, 2, 4, 6];
  const AT = Array.from({ length: 121 }, (_, i) => (i - 60) / 10);
  const RMS = "#0068CF";

  // Each layer has a number with a slider, a curve, and the number that its derivation gives.
  const LAYERS = {
    dyt: {
      name: "DyT",
      symbol: "α",
      look: { stroke: "#B34700", "stroke-width": 2.5 },
      drawn: "a thin line",
      slider: { min: 0.05, max: 2, step: 0.01, value: 0.5 },
      number: (place) => place,
      place: (number) => number,
      values: (number, row) => Norms.dyt(AT, number, Math.sqrt(row.length)),
      derived: (row) => 1 / Norms.rootMeanSquare(row, 1e-5),
      button: "α of the derivation: 1/ρ",
    },
    dyisru: {
      name: "DyISRU",
      symbol: "c",
      look: { stroke: "#8E3A70", "stroke-width": 2.5, "stroke-dasharray": "9 5" },
      drawn: "dashes",
      slider: { min: -2, max: 5, step: 0.01, value: 1 }, // log c, as the layer stores it
      number: (place) => Math.exp(place),
      place: (number) => Math.log(number),
      values: (number, row) => Norms.dyisru(AT, number, Math.sqrt(row.length)),
      derived: (row, entry) => Norms.exactConstant(row, entry),
      button: "c of this entry: the squares of the others",
    },
  };

  function drawAxes(svg, x, y, level) {
    const across = { x1: x(-LIMIT), x2: x(LIMIT) };
    svgElement("line", { ...across, y1: y(0), y2: y(0), class: "zero" }, svg);
    svgElement("line", { x1: x(0), x2: x(0), y1: EDGE, y2: HEIGHT - EDGE, class: "zero" }, svg);
    for (const end of [level, -level]) {
      svgElement("line", { ...across, y1: y(end), y2: y(end), class: "limit" }, svg);
    }
    svgElement("text", { x: x(-LIMIT), y: y(level) - 6 }, svg).textContent = "√D";
    const right = { x: x(LIMIT), y: y(-level) - 6, "text-anchor": "end" };
    svgElement("text", right, svg).textContent = "\u2212√D";
    for (const tick of TICKS) {
      const place = { x: x(tick), y: y(0) + 24, "text-anchor": "middle" };
      svgElement("text", place, svg).textContent = written(tick, 0);
    }
  }

  function farthest(values, others) {
    return Math.max(...values.map((value, i) => Math.abs(value - others[i])));
  }

  // The slider of a layer's number, and the button that sets it to what `derived()` gives.
  function control(host, layer, derived, change) {
    const box = htmlElement("p", { class: "control" }, host);
    const label = htmlElement("label", {}, box);
    const name = htmlElement("span", { class: "value" }, label);
    const slider = htmlElement("input", { type: "range", ...layer.slider }, label);
    const button = htmlElement("button", { type: "button" }, box);
    button.textContent = layer.button;
    const made = {};
    const set = (number) => {
      made.number = number; // exact: the slider's steps are coarser
      const text = `${layer.symbol} = ${written(number)}`;
      name.textContent = `${layer.name}, ${text}`;
      slider.setAttribute("aria-valuetext", text);
      change();
    };
    slider.addEventListener("input", () => set(layer.number(slider.valueAsNumber)));
    button.addEventListener("click", () => {
      slider.value = layer.place(derived());
      set(derived());
    });
    made.start = () => set(layer.number(slider.valueAsNumber));
    return made;
  }

  function chooser(host, row, change) {
    const box = htmlElement("p", { class: "control" }, host);
    const label = htmlElement("label", {}, box);
    label.append("RMSNorm's curve of ");
    const entries = htmlElement("select", {}, label);
    row.forEach((value, i) => {
      const option = htmlElement("option", { value: i }, entries);
      option.textContent = `entry ${i + 1}, which is ${written(value)}`;
    });
    entries.addEventListener("change", change);
    return () => Number(entries.value);
  }

  function build(host) {
    const row = numbers(host.dataset.row);
    const layers = host.dataset.layers.split(",").map((name) => LAYERS[name]);
    const level = Math.sqrt(row.length);

    const figure = htmlElement("figure", {}, host);
    const drawn = layers.map((layer) => `${layer.name}: ${layer.drawn}.`).join(" ");
    htmlElement("figcaption", {}, figure).textContent =
      "The output over one entry of the row. RMSNorm while the other entries stay: a broad line " +
      `for the chosen entry, grey lines for the others. ${drawn}`;
    const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, figure);
    const x = axis(-LIMIT, LIMIT, EDGE, WIDTH - EDGE);
    const y = axis(-level, level, HEIGHT - EDGE, EDGE);
    const points = (values) => values.map((value, i) => `${x(AT[i])},${y(value)}`).join(" ");
    drawAxes(svg, x, y, level);
    const line = (look) => svgElement("polyline", { fill: "none", ...look }, svg);
    row.forEach((_, entry) => {
      const grey = line({ stroke: "#9aa7b2", "stroke-width": 1 });
      grey.setAttribute("points", points(Norms.rmsNormAlong(row, entry, AT)));
    });
    const broad = line({ stroke: RMS, "stroke-width": 7, "stroke-opacity": 0.5 });
    const learned = layers.map((layer) => line(layer.look));
    const dot = svgElement("circle", { r: 7, fill: RMS, class: "dot" }, svg);

    const chosen = chooser(host, row, () => draw());
    const controls = layers.map((layer) => {
      const derived = () => layer.derived(row, chosen());
      return control(host, layer, derived, () => draw());
    });
    const status = htmlElement("ul", { class: "status", "aria-live": "polite" }, host);

    function draw() {
      const entry = chosen();
      const target = Norms.rmsNormAlong(row, entry, AT);
      broad.setAttribute("points", points(target));
      dot.setAttribute("cx", x(row[entry]));
      dot.setAttribute("cy", y(Norms.rmsNorm(row)[entry]));
      const lines = layers.map((layer, k) => {
        const values = layer.values(controls[k].number ?? 1, row);
        learned[k].setAttribute("points", points(values));
        const distance = written(farthest(values, target), 3);
        return `${layer.name}: at most ${distance} from RMSNorm's curve of entry ${entry + 1}`;
      });
      status.replaceChildren(...lines.map(listItem));
      svg.setAttribute("aria-label", lines.join("; "));
    }

    for (const made of controls) made.start();
  }

  document.querySelectorAll('[data-figure="curves"]').forEach(build);
})();
