// The time of a call, and where it stands under the roofline.
// <div class="interactive" data-figure="roof">

(() => {
  const WIDTH = 640;
  const HEIGHT = 286;
  const LEFT = 100;
  const BOTTOM = HEIGHT - 60;
  const TOP = 34;
  const BYTES = [3, 9]; // powers of ten: 1 kB to 1 GB
  const SECONDS = [-7, -2];
  const INTENSITY = [-2, 3];
  const SPEED = [8, 16]; // operations a second
  const LINE = "#0068CF";
  const DOT = "#B34700";
  const TIME_UNITS = [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
  ];
  const BYTE_UNITS = [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
    [1, "bytes"],
  ];
  const OPERATION_UNITS = [
    [1e12, "Tflop/s"],
    [1e9, "Gflop/s"],
    [1e6, "Mflop/s"],
    [1, "flop/s"],
  ];

  const time = (value) => withUnit(value, TIME_UNITS);
  const memory = (value) => withUnit(value, BYTE_UNITS);
  const speed = (value) => withUnit(value, OPERATION_UNITS);

  function ticks([low, high], step, text) {
    const count = Math.floor((high - low) / step) + 1;
    return Array.from({ length: count }, (_, i) => [low + i * step, text(10 ** (low + i * step))]);
  }

  function panel(host, words, x, y, axes) {
    const figure = htmlElement("figure", {}, host);
    htmlElement("figcaption", {}, figure).textContent = words;
    const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, figure);
    frame(svg, x, y, { left: LEFT, bottom: BOTTOM, ...axes });
    const line = polyline(svg, { stroke: LINE, "stroke-width": 3 });
    const dot = svgElement("circle", { r: 8, fill: DOT, class: "dot" }, svg);
    const draw = (points, [cx, cy]) => {
      line.draw(points);
      dot.setAttribute("cx", cx);
      dot.setAttribute("cy", cy);
    };
    return { svg, draw };
  }

  function power10(host, label, [low, high], value, text, change) {
    const look = { min: low, max: high, step: 0.05, value };
    return slider(host, { label, look, number: (place) => 10 ** place, text }, change);
  }

  function build(host) {
    const inside = (value, [low, high]) => Math.max(low, Math.min(high, value));
    const over = (range) => axis(...range, LEFT, WIDTH - 24);
    const up = (range) => axis(...range, BOTTOM, TOP);
    const [bytesAt, secondsAt] = [over(BYTES), up(SECONDS)];
    const [intensityAt, speedAt] = [over(INTENSITY), up(SPEED)];
    const times = panel(host, "The time of a call over its bytes.", bytesAt, secondsAt, {
      across: ticks(BYTES, 2, memory),
      up: ticks(SECONDS, 1, time),
      names: ["bytes moved", "time"],
    });
    const roofs = panel(host, "The roof: the most that can be reached.", intensityAt, speedAt, {
      across: ticks(INTENSITY, 1, (value) => String(Number(value.toPrecision(1)))),
      up: ticks(SPEED, 2, (value) => power(Math.round(Math.log10(value)))),
      names: ["operations a byte", "operations a second"],
    });
    const redraw = () => draw();
    const bytes = power10(host, "bytes", BYTES, 7.8, memory, redraw);
    const intensity = power10(host, "operations a byte", INTENSITY, 0, (v) => written(v), redraw);
    const bandwidth = power10(host, "bandwidth", [10, 13], 12.5, (v) => `${memory(v)}/s`, redraw);
    const peak = power10(host, "arithmetic", [11, 15], 13.8, speed, redraw);
    const start = slider(
      host,
      {
        label: "start of a call",
        look: { min: 0, max: 20, step: 0.5, value: 5 },
        number: (place) => place * 1e-6,
        text: (seconds) => `${written(seconds * 1e6, 1)} µs`,
      },
      redraw,
    );
    const status = listOf(host);

    function draw() {
      const machine = { bandwidth: bandwidth.number(), peak: peak.number(), start: start.number() };
      const call = (moved, each) =>
        Norms.seconds({ ...machine, bytes: moved, operations: moved * each });
      const moved = bytes.number();
      const each = intensity.number();
      const seconds = call(moved, each);
      const reached = (moved * each) / seconds;
      const grid = ([low, high]) => Array.from({ length: 71 }, (_, i) => low + (i * (high - low)) / 70);
      const place = (value, range) => inside(Math.log10(value), range);
      times.draw(
        grid(BYTES).map((b) => [bytesAt(b), secondsAt(place(call(10 ** b, each), SECONDS))]),
        [bytesAt(Math.log10(moved)), secondsAt(place(seconds, SECONDS))],
      );
      const roof = (i) => Math.min(machine.peak, i * machine.bandwidth);
      roofs.draw(
        grid(INTENSITY).map((i) => [intensityAt(i), speedAt(place(roof(10 ** i), SPEED))]),
        [intensityAt(Math.log10(each)), speedAt(place(reached, SPEED))],
      );
      const ridge = machine.peak / machine.bandwidth;
      const limit = each < ridge ? "memory" : "arithmetic";
      const share = written((100 * moved) / machine.bandwidth / seconds, 0);
      const lines = [
        `this call takes ${time(seconds)}, of which its start takes ${time(machine.start)}; ` +
          `it reaches ${share} % of the bandwidth`,
        `half of the bandwidth is reached at ${memory(machine.bandwidth * machine.start)}, ` +
          "where the start costs as much as the bytes",
        `the ridge is at ${written(ridge, 1)} operations a byte: here ${limit} is the limit, ` +
          `and ${speed(reached)} are reached under a roof of ${speed(roof(each))}`,
      ];
      status.replaceChildren(...lines.map(listItem));
      times.svg.setAttribute("aria-label", `${lines[0]}; ${lines[1]}`);
      roofs.svg.setAttribute("aria-label", lines[2]);
    }

    draw();
  }

  document.querySelectorAll('[data-figure="roof"]').forEach(build);
})();
