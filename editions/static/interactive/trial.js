// A trial of two contenders, drawn at random: the differences, the interval, and the word.
// <div class="interactive" data-figure="trial">

(() => {
  const WIDTH = 640;
  const HEIGHT = 190;
  const LIMIT = 6; // points
  const MIDDLE = 70;
  const BAR = 108;
  const TRIALS = 1000;
  const TICKS = [-6, -3, 0, 3, 6];
  const BLUE = "#0068CF";
  // How many standard errors 95 % reach to each side, for 2 to 20 differences (Student).
  const QUANTILES = [
    12.7062047, 4.3026527, 3.1824463, 2.7764451, 2.5705818, 2.4469119, 2.3646243, 2.3060041,
    2.2621572, 2.2281389, 2.2009852, 2.1788128, 2.1603687, 2.1447867, 2.1314495, 2.1199053,
    2.1098156, 2.1009220, 2.0930241,
  ];

  function word({ mean, reach }, margin) {
    if (mean - reach > 0) return "better";
    if (mean + reach < 0) return "worse";
    return reach + Math.abs(mean) < margin ? "equal" : "open";
  }

  function draws(count, truth, spread, seed) {
    const normal = normals(seed);
    return Array.from({ length: count }, () => truth + spread * normal());
  }

  function build(host) {
    const figure = htmlElement("figure", {}, host);
    htmlElement("figcaption", {}, figure).textContent =
      "Differences of two contenders, a dot a seed, in points. Bar: the 95 % interval of their " +
      "mean. Grey: less than the margin. The dashed line is the truth, which no trial sees.";
    const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, figure);
    const x = axis(-LIMIT, LIMIT, 20, WIDTH - 20);
    const band = svgElement("rect", { y: 20, height: HEIGHT - 70, fill: "#e3e8ec" }, svg);
    svgElement("line", { x1: x(0), x2: x(0), y1: 20, y2: HEIGHT - 50, class: "zero" }, svg);
    for (const tick of TICKS) {
      const place = { x: x(tick), y: HEIGHT - 28, "text-anchor": "middle" };
      svgElement("text", place, svg).textContent = written(tick, 0);
    }
    const named = { x: WIDTH / 2, y: HEIGHT - 6, "text-anchor": "middle" };
    svgElement("text", named, svg).textContent = "first minus second, points";
    const line = svgElement("line", { y1: 20, y2: HEIGHT - 50, class: "truth" }, svg);
    const dots = svgElement("g", {}, svg);
    const bar = svgElement("line", { y1: BAR, y2: BAR, stroke: BLUE, "stroke-width": 9 }, svg);
    const mean = svgElement("circle", { cy: BAR, r: 8, fill: BLUE, class: "dot" }, svg);

    const redraw = () => draw();
    const points = (number) => `${written(number, 1)} points`;
    const control = (label, look, text) => slider(host, { label, look, text }, redraw);
    const seeds = control("seeds", { min: 2, max: 20, step: 1, value: 5 }, String);
    const truth = control("true difference", { min: -4, max: 4, step: 0.1, value: 1 }, points);
    const spread = control("spread of a difference", { min: 0.1, max: 5, step: 0.1, value: 1.5 }, points);
    const margin = control("margin", { min: 0.1, max: 4, step: 0.1, value: 1 }, points);
    const box = htmlElement("p", { class: "control" }, host);
    let seed = 1;
    let many = false;
    button(box, "Another trial", () => {
      seed += 1;
      draw();
    });
    button(box, `${TRIALS} trials`, () => {
      many = true;
      draw();
    });
    const status = listOf(host);

    function one(number) {
      const found = draws(seeds.number(), truth.number(), spread.number(), 7919 * number);
      return { found, ...Norms.paired(found, QUANTILES[seeds.number() - 2]) };
    }

    function counted() {
      const words = { better: 0, worse: 0, equal: 0, open: 0 };
      let holds = 0;
      for (let number = 1; number <= TRIALS; number++) {
        const trial = one(seed + number);
        words[word(trial, margin.number())] += 1;
        holds += Math.abs(trial.mean - truth.number()) <= trial.reach;
      }
      const parts = Object.entries(words).map(([name, count]) => `${count} ${name}`);
      return `of ${TRIALS} such trials: ${parts.join(", ")}; the interval holds the truth in ${holds}`;
    }

    function draw() {
      const trial = one(seed);
      const inside = (value) => x(Math.max(-LIMIT, Math.min(LIMIT, value)));
      const allowed = margin.number();
      band.setAttribute("x", x(-allowed));
      band.setAttribute("width", x(allowed) - x(-allowed));
      line.setAttribute("x1", x(truth.number()));
      line.setAttribute("x2", x(truth.number()));
      dots.replaceChildren();
      for (const value of trial.found) {
        svgElement("circle", { cx: inside(value), cy: MIDDLE, r: 7, class: "seed" }, dots);
      }
      bar.setAttribute("x1", inside(trial.mean - trial.reach));
      bar.setAttribute("x2", inside(trial.mean + trial.reach));
      mean.setAttribute("cx", inside(trial.mean));
      const ends = [trial.mean - trial.reach, trial.mean + trial.reach].map((end) => written(end));
      const lines = [
        `mean ${written(trial.mean)}, interval ${ends[0]} to ${ends[1]}: ${word(trial, allowed)}`,
        ...(many ? [counted()] : []),
      ];
      status.replaceChildren(...lines.map(listItem));
      svg.setAttribute("aria-label", lines.join("; "));
    }

    draw();
  }

  document.querySelectorAll('[data-figure="trial"]').forEach(build);
})();
