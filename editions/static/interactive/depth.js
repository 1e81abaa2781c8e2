// A chain of Linear and ReLU: how large its rows are behind each layer, and how alike.
// <div class="interactive" data-figure="depth">

(() => {
  const WIDTH = 640;
  const HEIGHT = 256;
  const LEFT = 84;
  const BOTTOM = HEIGHT - 60;
  const TOP = 34;
  const DEEPEST = 60;
  const ROWS = 6;
  const SEEDS = 5;
  const DECADES = 14; // of the axis, up and down
  const SIZE = "#B34700";
  const ALIKE = "#0068CF";
  const TENS = Array.from({ length: DEEPEST / 10 + 1 }, (_, i) => [10 * i, written(10 * i, 0)]);

  const known = new Map();

  function signals(width) {
    if (!known.has(width)) {
      const seeds = Array.from({ length: SEEDS }, (_, i) => i + 1);
      known.set(width, seeds.map((seed) => Chain.signal(width, DEEPEST, ROWS, seed)));
    }
    return known.get(width);
  }

  function panel(host, words, x, y, axes) {
    const figure = htmlElement("figure", {}, host);
    htmlElement("figcaption", {}, figure).textContent = words;
    const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, figure);
    frame(svg, x, y, { across: TENS, left: LEFT, bottom: BOTTOM, ...axes });
    return svg;
  }

  function build(host) {
    const x = axis(0, DEEPEST, LEFT, WIDTH - 20);
    const decade = axis(-DECADES, DECADES, BOTTOM, TOP);
    const share = axis(0, 1, BOTTOM, TOP);
    const powers = [-14, -7, 0, 7, 14].map((exponent) => [exponent, power(exponent)]);
    const sizes = panel(
      host,
      `The size of the numbers, ${SEEDS} networks. Dashed: the product of the factors.`,
      x,
      decade,
      { up: powers, names: ["behind layer", "size"] },
    );
    const shares = panel(
      host,
      `How alike ${ROWS} random rows have become: the mean cosine of two. At 1 all are one row.`,
      x,
      share,
      { up: [0, 0.5, 1].map((t) => [t, written(t, 1)]), names: ["behind layer", "cosine"] },
    );
    const thin = { "stroke-width": 1.8 };
    const grown = Array.from({ length: SEEDS }, () => polyline(sizes, { stroke: SIZE, ...thin }));
    const dashed = { stroke: "#16202a", "stroke-width": 2, "stroke-dasharray": "7 5" };
    const product = polyline(sizes, dashed);
    const alike = Array.from({ length: SEEDS }, () => polyline(shares, { stroke: ALIKE, ...thin }));

    const width = slider(
      host,
      {
        label: "width n",
        look: { min: 3, max: 7, step: 1, value: 6 },
        number: (place) => 2 ** place,
        text: (number) => String(number),
      },
      () => draw(),
    );
    const depth = slider(
      host,
      { label: "depth", look: { min: 1, max: DEEPEST, step: 1, value: 30 }, text: String },
      () => draw(),
    );
    const weights = slider(
      host,
      {
        label: "n times the weights' variance",
        look: { min: 0.01, max: 6, step: 0.01, value: 0.33 },
        text: (number) => written(number),
      },
      () => draw(),
    );
    const presets = htmlElement("p", { class: "control" }, host);
    button(presets, "torch's own, about 1/3", () => weights.set(0.33));
    button(presets, "He's rule, 2", () => weights.set(2));
    const status = listOf(host);

    function draw() {
      const layers = Array.from({ length: depth.number() + 1 }, (_, i) => i);
      const factor = Math.sqrt(weights.number() / 2);
      const found = signals(width.number());
      const within = (value) => Math.max(-DECADES, Math.min(DECADES, value));
      const size = (signal, i) => Math.log10(signal.sizes[i]) + i * Math.log10(factor);
      found.forEach((signal, k) => {
        grown[k].draw(layers.map((i) => [x(i), decade(within(size(signal, i)))]));
        alike[k].draw(layers.map((i) => [x(i), share(signal.likeness[i])]));
      });
      product.draw(layers.map((i) => [x(i), decade(within(i * Math.log10(factor)))]));
      const last = depth.number();
      const ends = found.map((signal) => Math.round(within(size(signal, last))));
      const cosines = found.map((signal) => signal.likeness[last]);
      const lines = [
        `the factor of a layer, √(n v / 2), is ${written(factor)}`,
        `behind layer ${last} the size is ${power(Math.min(...ends))} to ` +
          power(Math.max(...ends)),
        `the mean cosine of two rows is ${written(Math.min(...cosines))} to ` +
          written(Math.max(...cosines)),
      ];
      status.replaceChildren(...lines.map(listItem));
      sizes.setAttribute("aria-label", `${lines[0]}; ${lines[1]}`);
      shares.setAttribute("aria-label", lines[2]);
    }

    draw();
  }

  document.querySelectorAll('[data-figure="depth"]').forEach(build);
})();
