// A row of two numbers, the gradient that arrives at it, and what RMSNorm hands down of it.
// <div class="interactive" data-figure="plane">

(() => {
  const SIDE = 440;
  const LIMIT = 3;
  const GRID = 0.05;
  const ROW = { name: "the row x", colour: "#0068CF", start: [2, 1] };
  const ARRIVES = { name: "what arrives, g", colour: "#8E3A70", start: [0.5, 1.5] };
  const DOWN = "#B34700";
  const ALONG = "#6b7780";

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
  const length = (a) => Math.hypot(...a);
  const words = (a) => `(${a.map((value) => written(value)).join(", ")})`;

  function arrow(svg, colour, width, dashes) {
    const look = { stroke: colour, "stroke-width": width, "stroke-dasharray": dashes ?? "" };
    const line = svgElement("line", look, svg);
    const head = svgElement("polygon", { fill: colour }, svg);
    return (from, to) => {
      const ends = { x1: from[0], y1: from[1], x2: to[0], y2: to[1] };
      for (const [key, value] of Object.entries(ends)) line.setAttribute(key, value);
      const far = Math.hypot(to[0] - from[0], to[1] - from[1]);
      const [u, v] = far < 1 ? [0, 0] : [(to[0] - from[0]) / far, (to[1] - from[1]) / far];
      const corner = (back, aside) => `${to[0] - back * u - aside * v},${to[1] - back * v + aside * u}`;
      head.setAttribute("points", [corner(0, 0), corner(13, 6), corner(13, -6)].join(" "));
    };
  }

  function point(svg, place, about, set) {
    const handle = svgElement("circle", { r: 11, fill: about.colour, class: "dot handle both" }, svg);
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = svg.getBoundingClientRect();
      const scale = SIDE / box.width;
      set([
        place.x.inverse((event.clientX - box.left) * scale),
        place.y.inverse((event.clientY - box.top) * scale),
      ]);
    });
    return handle;
  }

  function build(host) {
    const figure = htmlElement("figure", {}, host);
    htmlElement("figcaption", {}, figure).textContent =
      "Drag the two dots, or use the four sliders. The gradient stands at the end of the row. " +
      "The circle: all rows of this length.";
    const svg = svgElement("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, role: "img", class: "square" }, figure);
    const place = { x: axis(-LIMIT, LIMIT, 0, SIDE), y: axis(-LIMIT, LIMIT, SIDE, 0) };
    const at = (a) => [place.x(a[0]), place.y(a[1])];
    svgElement("line", { x1: 0, x2: SIDE, y1: place.y(0), y2: place.y(0), class: "zero" }, svg);
    svgElement("line", { x1: place.x(0), x2: place.x(0), y1: 0, y2: SIDE, class: "zero" }, svg);
    for (const tick of [-2, -1, 1, 2]) {
      const below = { x: place.x(tick), y: place.y(0) + 18, "text-anchor": "middle" };
      svgElement("text", below, svg).textContent = written(tick, 0);
    }
    const circle = svgElement("circle", { cx: place.x(0), cy: place.y(0), fill: "none", class: "limit" }, svg);
    const row = arrow(svg, ROW.colour, 4);
    const along = arrow(svg, ALONG, 2, "5 4");
    const arrives = arrow(svg, ARRIVES.colour, 3);
    const down = arrow(svg, DOWN, 5);
    const vectors = [ROW, ARRIVES];
    const values = () => sliders.map((pair) => pair.map((made) => made.number()));
    const handles = vectors.map((about, k) => point(svg, place, about, (to) => put(k, to)));
    const sliders = vectors.map((about) =>
      [0, 1].map((entry) =>
        slider(
          host,
          {
            label: `${about.name}, entry ${entry + 1}`,
            look: { min: -LIMIT, max: LIMIT, step: GRID, value: about.start[entry] },
            text: (number) => written(number),
          },
          () => draw(),
        ),
      ),
    );
    const status = listOf(host);

    function put(k, to) {
      const [x] = values();
      const wanted = k === 0 ? to : [to[0] - x[0], to[1] - x[1]];
      wanted.forEach((value, entry) => sliders[k][entry].set(value));
    }

    function draw() {
      const [x, g] = values();
      const handed = Norms.rmsNormGrad(g, x);
      const size = Norms.rootMeanSquare(x, 1e-5);
      const share = dot(x, g) / Math.max(dot(x, x), 1e-9);
      const lost = x.map((value) => share * value);
      const tip = (a) => at([x[0] + a[0], x[1] + a[1]]);
      circle.setAttribute("r", place.x(length(x)) - place.x(0));
      row(at([0, 0]), at(x));
      arrives(at(x), tip(g));
      along(at(x), tip(lost));
      down(at(x), tip(handed));
      [at(x), tip(g)].forEach(([cx, cy], k) => {
        handles[k].setAttribute("cx", cx);
        handles[k].setAttribute("cy", cy);
      });
      const lines = [
        `what arrives, g = ${words(g)}: ${written(length(lost))} of it lie along the row ` +
          "(dashed) and go nowhere",
        `what RMSNorm hands down: ${words(handed)}, at a right angle to the row, ` +
          `its length ${written(length(handed))}`,
        `that is the rest of g, ${written(length(handed) * size)}, divided by the row's size r = ` +
          written(size),
      ];
      status.replaceChildren(...lines.map(listItem));
      svg.setAttribute("aria-label", `the row ${words(x)}; ${lines.join("; ")}`);
    }

    draw();
  }

  document.querySelectorAll('[data-figure="plane"]').forEach(build);
})();
