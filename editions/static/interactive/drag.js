// One entry of a row is dragged; the outputs of some layers follow, or do not.
// <div class="interactive" data-figure="drag" data-row="0.5,-1.25,…" data-layers="layerNorm,dyt">
// With data-sizes="2,4,8" the row is a batch of one feature, of a size that the reader chooses.

(() => {
  const WIDTH = 640;
  const HEIGHT = 170;
  const EDGE = 14;
  const LIMIT = 4; // of the input
  const GRID = 0.05;
  const INPUT = "Input: drag a dot, or choose it with the Tab key and use the arrow keys";
  const UP = ["ArrowUp", "ArrowRight"];
  const DOWN = ["ArrowDown", "ArrowLeft"];
  const LAYERS = {
    layerNorm: { name: "LayerNorm", output: Norms.layerNorm, limit: 3, colour: "#0A3F67" },
    rmsNorm: { name: "RMSNorm", output: Norms.rmsNorm, limit: 3, colour: "#0068CF" },
    dyt: { name: "DyT, α = 0.5", output: halfDyt, limit: 1.2, colour: "#B34700" },
    // one feature over the samples: LayerNorm's formula on the turned table
    batchNorm: { name: "BatchNorm", output: Norms.layerNorm, limit: 3, colour: "#0A3F67" },
    batchGradient: {
      name: "the gradient of output 1, by each sample",
      output: gradientOfFirst,
      limit: 1.2,
      colour: "#8E3A70",
      what: "gradients",
    },
  };

  function halfDyt(row) {
    return Norms.dyt(row, 0.5);
  }

  function gradientOfFirst(batch) {
    const first = batch.map((_, i) => (i === 0 ? 1 : 0));
    return Norms.batchNormGrad(first, batch);
  }

  // Stems with dots, and hollow dots where the row began.
  function panel(host, name, start, limit, colour) {
    const figure = htmlElement("figure", {}, host);
    htmlElement("figcaption", {}, figure).textContent = name;
    const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` }, figure);
    const x = axis(-0.5, start.length - 0.5, 0, WIDTH);
    const y = axis(-limit, limit, HEIGHT - EDGE, EDGE);
    svgElement("line", { x1: 0, x2: WIDTH, y1: y(0), y2: y(0), class: "zero" }, svg);
    start.forEach((value, i) => {
      svgElement("circle", { cx: x(i), cy: y(value), r: 6, class: "ghost" }, svg);
    });
    const stems = start.map((_, i) => {
      const look = { stroke: colour, "stroke-width": 3 };
      return svgElement("line", { x1: x(i), x2: x(i), y1: y(0), ...look }, svg);
    });
    const dots = start.map((_, i) => {
      return svgElement("circle", { cx: x(i), r: 7, fill: colour, class: "dot" }, svg);
    });
    const draw = (values) => {
      values.forEach((value, i) => {
        const shown = y(Math.max(-limit, Math.min(limit, value)));
        stems[i].setAttribute("y2", shown);
        dots[i].setAttribute("cy", shown);
      });
    };
    return { svg, y, dots, draw };
  }

  function movedSince(before, now) {
    return now.filter((value, i) => Math.abs(value - before[i]) > 1e-9).length;
  }

  function keyed(key, value) {
    if (UP.includes(key)) return value + 0.25;
    if (DOWN.includes(key)) return value - 0.25;
    return { PageUp: value + 1, PageDown: value - 1, Home: -LIMIT, End: LIMIT }[key];
  }

  function makeHandle(dot, entry, what, input, row, set) {
    const about = {
      r: 13,
      class: "dot handle",
      tabindex: 0,
      role: "slider",
      "aria-orientation": "vertical",
      "aria-valuemin": -LIMIT,
      "aria-valuemax": LIMIT,
      "aria-label": `${what} ${entry + 1}`,
    };
    for (const [key, value] of Object.entries(about)) dot.setAttribute(key, value);
    dot.addEventListener("pointerdown", (event) => {
      dot.setPointerCapture(event.pointerId);
      dot.focus();
      event.preventDefault();
    });
    dot.addEventListener("pointermove", (event) => {
      if (!dot.hasPointerCapture(event.pointerId)) return;
      const box = input.svg.getBoundingClientRect();
      set(entry, input.y.inverse(((event.clientY - box.top) * HEIGHT) / box.height));
    });
    dot.addEventListener("keydown", (event) => {
      const value = keyed(event.key, row[entry]);
      if (value === undefined) return;
      set(entry, value);
      event.preventDefault();
    });
  }

  function build(host) {
    const row = numbers(host.dataset.row);
    if (!host.dataset.sizes) {
      fill(host, row, "entry");
      return;
    }
    const line = htmlElement("p", { class: "control" }, host);
    const label = htmlElement("label", {}, line);
    label.append("samples in the batch: ");
    const choice = htmlElement("select", {}, label);
    for (const size of numbers(host.dataset.sizes)) {
      htmlElement("option", { value: size }, choice).textContent = size;
    }
    const box = htmlElement("div", {}, host);
    const show = () => {
      box.replaceChildren();
      fill(box, row.slice(0, Number(choice.value)), "sample", host.dataset.layers);
    };
    choice.value = Math.max(...numbers(host.dataset.sizes));
    choice.addEventListener("change", show);
    show();
  }

  function fill(host, start, what, names = host.dataset.layers) {
    const layers = names.split(",").map((name) => LAYERS[name]);
    const row = [...start];
    const input = panel(host, INPUT, start, LIMIT, "#B34700");
    input.svg.setAttribute("role", "group");
    input.svg.setAttribute("aria-label", what === "entry" ? "the entries of the input" : "the samples");
    const panels = layers.map((layer) => {
      return panel(host, layer.name, layer.output(start), layer.limit, layer.colour);
    });
    for (const made of panels) made.svg.setAttribute("role", "img");
    const status = htmlElement("ul", { class: "status", "aria-live": "polite" }, host);

    function draw() {
      input.draw(row);
      input.dots.forEach((dot, i) => {
        dot.setAttribute("aria-valuenow", row[i]);
        dot.setAttribute("aria-valuetext", written(row[i]));
      });
      const lines = layers.map((layer, k) => {
        const output = layer.output(row);
        const count = movedSince(layer.output(start), output);
        const mean = written(Norms.mean(output));
        const size = written(Norms.rootMeanSquare(output));
        panels[k].draw(output);
        const words = output.map((value) => written(value)).join(", ");
        panels[k].svg.setAttribute("aria-label", `outputs of ${layer.name}: ${words}`);
        const moved = `${count} of ${row.length} ${layer.what ?? "outputs"} have moved`;
        return `${layer.name}: ${moved}; their mean is ${mean}, their root mean square ${size}`;
      });
      status.replaceChildren(...lines.map(listItem));
    }

    function set(entry, value) {
      const onGrid = Number((Math.round(value / GRID) * GRID).toFixed(2));
      row[entry] = Math.max(-LIMIT, Math.min(LIMIT, onGrid));
      draw();
    }

    input.dots.forEach((dot, i) => makeHandle(dot, i, what, input, row, set));
    const reset = htmlElement("button", { type: "button" }, host);
    reset.textContent = "Back to the start";
    reset.addEventListener("click", () => {
      start.forEach((value, i) => (row[i] = value));
      draw();
    });
    draw();
  }

  document.querySelectorAll('[data-figure="drag"]').forEach(build);
})();
