// The formulas of the course on plain arrays, without gain and bias.
// tests/editions/test_interactive.py compares each with normlib, in the browser.

const Norms = {
  mean(row) {
    return row.reduce((sum, value) => sum + value, 0) / row.length;
  },

  rootMeanSquare(row, eps = 0) {
    return Math.sqrt(Norms.mean(row.map((value) => value * value)) + eps);
  },

  // EQ-LN
  layerNorm(row, eps = 1e-5) {
    const mean = Norms.mean(row);
    const centred = row.map((value) => value - mean);
    const deviation = Norms.rootMeanSquare(centred, eps);
    return centred.map((value) => value / deviation);
  },

  // EQ-RMS
  rmsNorm(row, eps = 1e-5) {
    const size = Norms.rootMeanSquare(row, eps);
    return row.map((value) => value / size);
  },

  // EQ-DYT
  dyt(row, alpha, scale = 1) {
    return row.map((value) => scale * Math.tanh((alpha * value) / scale));
  },

  // EQ-DYISRU
  dyisru(row, c, scale = Math.sqrt(row.length)) {
    return row.map((value) => scale * (value / Math.hypot(value, Math.sqrt(c))));
  },

  // RMSNorm's output at one entry while this entry alone takes the values `at`.
  rmsNormAlong(row, entry, at, eps = 1e-5) {
    return at.map((value) => Norms.rmsNorm(row.with(entry, value), eps)[entry]);
  },

  // The constant that makes DyISRU equal to RMSNorm at one entry: the other entries' squares.
  exactConstant(row, entry, eps = 1e-5) {
    const others = row.toSpliced(entry, 1);
    return others.reduce((sum, value) => sum + value * value, 0) + row.length * eps;
  },
};
