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

  // What a norm hands down: EQ-RMS-GRAD, for a gain of 1.
  rmsNormGrad(g, row, eps = 1e-5) {
    const size = Norms.rootMeanSquare(row, eps);
    const unit = row.map((value) => value / size);
    const along = Norms.mean(unit.map((value, i) => value * g[i]));
    return g.map((value, i) => (value - unit[i] * along) / size);
  },

  // EQ-BN-GRAD for one channel; of one row it is LayerNorm's. RMSNorm's, behind a subtraction.
  batchNormGrad(g, batch, eps = 1e-5) {
    const middle = Norms.mean(batch);
    const centred = batch.map((value) => value - middle);
    const handed = Norms.rmsNormGrad(g, centred, eps);
    const mean = Norms.mean(handed);
    return handed.map((value) => value - mean);
  },

  // EQ-PAIRED: mean of some differences, and how far the interval reaches to each side.
  paired(differences, quantile) {
    const mean = Norms.mean(differences);
    const squares = differences.map((value) => (value - mean) ** 2);
    const spread = Math.sqrt(Norms.mean(squares) / (1 - 1 / differences.length));
    return { mean, reach: (quantile * spread) / Math.sqrt(differences.length) };
  },

  // Seconds of one call: EQ-ROOFLINE, and what it costs to start.
  seconds({ bytes, operations, bandwidth, peak, start }) {
    return start + Math.max(bytes / bandwidth, operations / peak);
  },
};

// Normal numbers, the same ones for the same seed: a counter, mixed to 32 bits, by Box and Muller.
function normals(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32 + 2 ** -33;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

// A chain of Linear and ReLU, all of one width, on random rows: size and likeness behind each layer.
const Chain = {
  draw(count, width, normal) {
    return Array.from({ length: count }, () => Array.from({ length: width }, normal));
  },

  layer(rows, weights) {
    return rows.map((row) =>
      weights.map((weight) => Math.max(0, weight.reduce((sum, w, i) => sum + w * row[i], 0))),
    );
  },

  size(rows) {
    return Norms.rootMeanSquare(rows.flat());
  },

  // The mean cosine of two different rows; a row that has died, all zeros, is like any other.
  likeness(rows) {
    const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
    const cosine = (a, b) => {
      const lengths = Math.sqrt(dot(a, a)) * Math.sqrt(dot(b, b));
      return lengths === 0 ? 1 : dot(a, b) / lengths;
    };
    return Norms.mean(rows.flatMap((a, i) => rows.slice(i + 1).map((b) => cosine(a, b))));
  },

  // With weights of variance 2 / width, He's rule. Another variance multiplies each size alone.
  signal(width, depth, count, seed) {
    const normal = normals(seed);
    const found = { sizes: [], likeness: [] };
    let rows = Chain.draw(count, width, normal);
    for (let layer = 0; layer <= depth; layer++) {
      if (layer > 0) {
        const weights = Chain.draw(width, width, normal);
        rows = Chain.layer(rows, weights);
        const size = Math.sqrt(2 / width);
        rows = rows.map((row) => row.map((value) => value * size));
      }
      found.sizes.push(Chain.size(rows));
      found.likeness.push(Chain.likeness(rows));
    }
    return found;
  },
};
