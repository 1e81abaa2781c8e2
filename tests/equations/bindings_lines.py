r"""What the letters stand for in the untagged formulas of a lesson, cell by cell.

A binding is a function of draw(*shape) that returns {name: number, row, matrix or function}; names
are those of latex.py, "f()" is a function where f alone is a number. It is listed with the cells
that it holds for: `@lines("02 gradient-size", ...)`. A value that is computed from leaves carries
its graph, so that derivatives need no binding of their own. Bindings share no code with normlib.
Of a cell in which a letter changes its meaning, `@lines("02 row $x = ...")` takes the formulas that
begin so.

A new derivation: add its cell to a binding that has its letters, or write one. A displayed formula
that has no numbers to try it with is named in NOT_EVALUATED, with the reason.
"""

import itertools
import math

import torch
import torch.nn.functional as F

CELLS = {}  # cell -> its bindings
D = 4  # the numbers of a row
EPS = 0.3  # large, so that a misplaced eps shows
SMALL = 1e-3  # what is small beside 1: a step whose square is left out, or its third power

# Displayed formulas that are not evaluated: cell -> how the formula begins -> why.
NOT_EVALUATED = {}
# Within lines: what a letter is set to, where one would take it for a statement.
SETTINGS = {
    "00 from-the-articles": {
        r"\mathrm{Var}(y) = n\, \mathrm{Var}(W)\, \mathrm{Var}(x)": "as the articles have it",
    },
    "00a variance-xavier": {
        r"n_{\mathrm{in}}\, v = 1": "what forward asks of the variance v",
        r"n_{\mathrm{out}}\, v = 1": "what backward asks of it",
    },
    "06 ex2": {r"dc/d\log c = c": "a derivative as one name"},
    "05 derive-solution": {
        r"y = \sqrt{D}": "a constant solution, or the place of one",
        r"y = -\sqrt{D}": "a constant solution, or the place of one",
    },
}


def lines(*cells):
    def register(function):
        for cell in cells:
            CELLS.setdefault(cell, []).append(function)
        return function

    return register


def environment(bind, point):
    generator = torch.Generator().manual_seed(point)
    return bind(lambda *shape: torch.randn(shape, dtype=torch.float64, generator=generator))


def leaf(tensor):
    return torch.as_tensor(tensor, dtype=torch.float64).clone().requires_grad_()


def positive(draw, *shape):
    return draw(*shape).abs() + 0.5


def row(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# One row or column, and its norms


def centred(x, w, dy, eps=EPS):
    """LayerNorm of a row x, or BatchNorm of a column; dy arrives at its outputs."""
    mu = x.mean()
    c = x - mu
    v = (c * c).mean()
    s = (v + eps).sqrt()
    hatx = c / s
    b = 0.2
    y = w * hatx + b
    sizes = {"D": len(x), "m": len(x), "varepsilon": eps}
    parts = {"mu": mu, "c": c, "v": v, "sigma": v.sqrt(), "s": s, "hatx": hatx}
    return sizes | parts | {"x": x, "w": w, "b": b, "y": y, "g": w * dy, "L": (y * dy).sum()}


@lines("02 gradient", "02 gradient-backward", "02 shape-derive")
def layer_norm_row(draw):
    return centred(leaf(draw(D)), draw(D), draw(D))


@lines("02 gradient-why")
def gradient_of_one_output(draw):
    """The loss is y_i."""
    i = 2
    dy = torch.eye(D, dtype=torch.float64)[i - 1]
    return centred(leaf(draw(D)), draw(D), dy) | {"i": i}


@lines("01 gradient-why")
@lines(r"lectures/01 Why a gain, a bias and an $\varepsilon$?")
def batch_norm_column(draw):
    return centred(leaf(draw(D)), draw(1)[0], draw(D))


# Rows whose mean is not 0: where a term vanishes for LayerNorm, its sign shows in them alone


@lines("01a steep-derive")
def column_of_two(draw):
    return centred(leaf(draw(2)), 1.0, draw(2))


@lines("01a steep-derive")
def equal_numbers(draw):
    return {"varepsilon": EPS, "r": EPS**0.5, "s": EPS**0.5}


@lines("01a steep-derive $g_{k}")
def loss_of_one_output(draw):
    w = draw(1)[0]
    return {"g": w * row(1, 0, 0, 0), "w": w, "n": 1}


def divided(x, w, dy, eps=EPS):
    """RMSNorm of a row x; dy arrives at its outputs."""
    q = (x * x).mean() + eps
    r = q.sqrt()
    hatx = x / r
    y = w * hatx
    parts = {"q": q, "r": r, "hatx": hatx, "D": len(x), "varepsilon": eps}
    return parts | {"x": x, "w": w, "y": y, "g": w * dy, "L": (y * dy).sum()}


@lines("04 failure-why", "04 ex1", "04 ex2", "04 graph-why", "04 graph-derive", "04 collect-derive")
@lines("04a failure-why")
def rms_norm_row(draw):
    return divided(leaf(draw(D)), draw(D), draw(D))


@lines("04 failure-why")
def row_with_a_target(draw):
    x, w, t = leaf(draw(D)), draw(D), draw(D)
    hatx = x / (x.square().mean() + EPS).sqrt()
    y = w * hatx
    return {"x": x, "w": w, "t": t, "hatx": hatx, "y": y, "L": (y - t).square().sum() / 2}


@lines("04 graph-why", "04 graph-derive", "04 collect-derive")
def row_of_the_graph(draw):
    """The numbers of the figure."""
    there = divided(leaf(row(1, 1, 3, 5)), row(3, 1, 1, 1), row(1, 0, 3, 0), eps=0.0)
    del there["varepsilon"]
    return there | {"u": there["x"] / there["x"].norm()}


@lines("03 derive-variance")
def mean_square_and_moments(draw):
    x = draw(D)
    q = x.square().mean()
    r = (q + EPS).sqrt()
    moments = {"mu": x.mean(), "sigma": x.std(correction=0), "hatmu": (x / r).mean()}
    return moments | {"x": x, "q": q, "r": r, "hatx": x / r, "varepsilon": EPS}


@lines("06 exact-derive", "06 ex1", "06 derive-ode")
@lines("lectures/06 Do not freeze ρ")
def row_without_eps(draw):
    x = leaf(draw(D))
    there = divided(x, torch.ones(D).double(), draw(D), eps=0.0)
    others = torch.stack([(x[:i] ** 2).sum() + (x[i + 1 :] ** 2).sum() for i in range(D)])
    return there | {"rho": there["r"], "c": others}


@lines("06 return-split")
def outlier_and_its_row(draw):
    there = row_without_eps(draw)
    return there | {"p": 1 - there["y"][0] ** 2 / D}


@lines(r"04a spectrum-derive $J v = \frac{1}{r} (v")
def rms_norm_jacobian_times_any_row(draw):
    return rms_norm_jacobian(draw) | {"v": draw(D)}


@lines("04a spectrum-derive", "04a ex3", "solutions/04a ex3")
def rms_norm_jacobian(draw):
    there = divided(leaf(draw(D)), draw(D), draw(D))

    def norm(v):
        return v / (v.square().mean() + EPS).sqrt()

    x, hatx = there["x"].detach(), there["hatx"].detach()
    across = draw(D)
    across = across - hatx * (hatx @ across) / (hatx @ hatx)
    matrices = {"J": torch.autograd.functional.jacobian(norm, x), "I": torch.eye(D).double()}
    return there | matrices | {"v": across}


# Unit vectors


@lines("04 unit-why", "04 unit-matrix")
def unit_vector(draw):
    x = leaf(draw(D))
    u = x / x.norm()
    push = draw(D)
    moved = (push - u * (u @ push)) / x.norm()
    matrix = (torch.eye(D).double() - torch.outer(u, u)) / x.norm()
    return {"x": x, "u": u, "D": D, "I": torch.eye(D).double(), "p": push, "v": moved, "J": matrix}


@lines("04a step-derive")
def step_at_the_old_length(draw):
    x, d = draw(2, D)
    r = x.square().mean().sqrt()
    return {"x": x, "d": d, "r": r, "eta": 0.3, "z": (x - 0.3 * r**2 * d) / r}


# Signals: averages over random weights are averages over all their signs


def signs(count):
    """All 2^count rows of signs, as columns."""
    return torch.tensor(list(itertools.product((-1.0, 1.0), repeat=count))).double().T


def average(values):
    return values.mean(-1)


@lines("00 ex1", "00 factor-derive", "00a variance-why")
@lines("lectures/00 Where the factor comes from")
def random_weights(draw):
    """Three inputs, two outputs."""
    x, v = draw(3), 0.6
    w = v**0.5 * signs(6).reshape(2, 3, -1)
    z = (w * x[:, None]).sum(1)
    signal = {"x": x, "W": w, "z": z, "h": z.relu(), "q": x.square().mean()}
    functions = {"E()": average, "relu()": torch.relu}
    return signal | functions | {"v": v, "n": 3, "j": 3, "k": 2}


@lines("01a noise-why")
def batch_of_samples(draw):
    """Each sample is one of three values; a batch has three samples."""
    values = draw(3)
    mu = values.mean()
    x = torch.stack([torch.stack(batch) for batch in itertools.product(values, repeat=3)]).T
    d = x - mu
    sigma = (values - mu).square().mean().sqrt()
    fixed = {"n": 1, "k": 2, "m": 3, "E()": average}
    return {"x": x, "mu": mu, "d": d, "e": d.mean(0), "sigma": sigma} | fixed


@lines("05a attention-derive", "solutions/05a ex1")
def query_and_key(draw):
    """A query is one of three numbers, a key one of four, independently."""
    q, k = (values.flatten() for values in torch.meshgrid(draw(3), draw(4), indexing="ij"))
    moments = {"mu_q": q.mean(), "mu_k": k.mean()}
    moments |= {"sigma_q": q.std(correction=0), "sigma_k": k.std(correction=0)}
    variance = {"E()": average, "Var()": lambda v: v.var(correction=0)}
    return {"q": q, "k": k} | moments | variance


@lines("02a stream-derive")
def stream(draw):
    start, branches, sign = draw(D), draw(4, D), signs(4)
    added = branches[:, :, None] * sign[:, None]  # block, entry, signs
    rows = {0: start[:, None].expand(D, sign.shape[1])}
    for k in range(4):
        rows[k + 1] = rows[k] + added[k]
    q = {k: value.square().mean() for k, value in rows.items()}
    b = branches.square().mean(1)
    one = {k: value[:, 3] for k, value in rows.items()}  # of one choice of the signs
    return {"x": one, "f": added[:, :, 3], "q": q, "b": b, "l": 4, "ldots": b[2]}


@lines("02a deepnorm")
def deep_norm(draw):
    return {"alpha": 1.7, "beta": 0.6, "b": 0.4}


@lines("06a growth-derive")
def scaled_branch(draw):
    return {"x": draw(D), "F": draw(D), "a": 0.7, "q": 1.3, "q_new": 1.3 + 0.7**2 * 2 * 1.3}


@lines("06a growth-derive", "solutions/06a ex2")
def number_of_the_depth(draw):
    return {"a": 15**-0.5, "K": 15}


@lines("06a predict-01-read-why", "solutions/06a ex1")
def mean_square(draw):
    return {"q": positive(draw, 1)[0], "a": 0.7}


@lines("08a skip-why")
def closed_branch(draw):
    return {"x": draw(D), "f()": torch.tanh}


@lines("06a fixup-derive")
def fixup(draw):
    return {"K": 15, "m": 3, "r": 15 ** (-1 / 4)}


@lines(r"06a fixup-derive $r = 1/\sqrt{K}")
def fixup_of_two_layers(draw):
    return {"K": 15, "m": 2, "r": 15 ** (-1 / 2)}


# Activations


@lines("00a slope-hand")
def sigmoid(draw):
    x = leaf(draw(1)[0])
    return {"x": x, "y": x.sigmoid(), "t": draw(1)[0]}


@lines("00a kinds", "00a kinds-derive", "solutions/00a ex1")
def sigmoid_threshold(draw):
    x = leaf(positive(draw, 1)[0])
    y = x.sigmoid()
    return {"x": x, "y": y, "varepsilon": y * (1 - y)}


@lines("00a kinds-derive")
def sigmoid_near_its_limit(draw):
    x = positive(draw, 1)[0]
    return {"x": x, "y": x.sigmoid(), "varepsilon": 1 - x.sigmoid()}


@lines("00a closed-why", "solutions/00a ex3")
def moved_sigmoid(draw):
    a, b = positive(draw, 2)
    x = draw(1)[0]
    curve = {"f()": lambda v: a * torch.as_tensor(b * v).sigmoid() - a / 2}
    return curve | {"A": a, "B": b, "C": -a / 2, "x": x, "sigmoid()": torch.sigmoid}


@lines("00a closed-weights")
def weights_after_a_moved_sigmoid(draw):
    values = {"A": 4.0, "B": 1.0, "C": -2.0, "w": 16.0, "n": 3}
    return values | {"W": draw(3), "x": draw(3), "sigmoid()": torch.sigmoid}


@lines("solutions/00a ex3")
def slope_one(draw):
    (a,) = positive(draw, 1)
    return {"A": a, "B": 4 / a}


@lines("solutions/00a ex2")
def leaky_variance(draw):
    return {"a": 0.3, "n": 7, "v": 2 / (1.09 * 7), "q": 1.3}


@lines("05a derive-softmax")
@lines("solutions/05a ex2")
def softmax(draw):
    x, dp = leaf(draw(D)), draw(D)
    p = x.softmax(0)
    return {"x": x, "p": p, "S": x.exp().sum(), "L": (p * dp).sum(), "K": D}


# Matrices


@lines("00b powers-bounds")
def eigenvector(draw):
    """Of a matrix that is not symmetric: a diagonal one, seen in another basis."""
    basis, values = draw(3, 3), row(0.4, -1.3, 0.7)
    w = basis @ torch.diag(values) @ torch.linalg.inv(basis)
    size = {"c": torch.linalg.matrix_norm(w, 2), "rho": 1.3, "t": 3}
    return {"W": w, "v": basis[:, 1], "lambda": values[1]} | size


@lines("00b powers-bounds")
def any_vector(draw):
    w = draw(3, 3)
    return {"W": w, "v": draw(3), "c": torch.linalg.matrix_norm(w, 2), "t": 3}


@lines("00b residual")
def shortcut(draw):
    j = draw(3, 3)
    j = 0.6 * j / torch.linalg.matrix_norm(j, 2)
    return {"J": j, "R": torch.eye(3).double() + j, "v": draw(3), "c": 0.6}


@lines("00b residual")
def shortcut_along_an_eigenvector(draw):
    j = draw(3, 3)
    j = j + j.T
    values, vectors = torch.linalg.eigh(j)
    matrices = {"J": j, "R": torch.eye(3).double() + j, "c": values.abs().max()}
    return matrices | {"v": vectors[:, 0], "lambda": values, "r": 1 + values}


@lines("00b residual")
def one_eigenvalue(draw):
    j = draw(3, 3)
    values, vectors = torch.linalg.eigh(j + j.T)
    matrices = {"J": j + j.T, "R": torch.eye(3).double() + j + j.T}
    return matrices | {"v": vectors[:, 0], "lambda": values[0]}


@lines("00b step-why", "00b descent")
def descent(draw):
    m, more, d = positive(draw, 3)
    curvatures = {"m": m, "M": m + more, "a": m, "d": d, "cond": (m + more) / m}
    return curvatures | {"eta": 2 / (m + m + more)}


@lines("03 fold-weights", "03 fold-derive")
def linear_layer(draw):
    w, u, b = draw(D, 3), draw(3), draw(D)
    return {"W": w, "u": u, "b": b, "h": w @ u + b, "D": D, "K": 3}


@lines("03a ex3")
def reader(draw):
    return {"R": draw(3, D), "hatx": draw(D), "w": draw(D), "beta": draw(D)}


@lines("03b length-derive")
def grown_and_decayed(draw):
    eta, decay, a = 0.05, SMALL / 0.05, 1.7
    ell = (eta * a**2 / (2 * decay)) ** 0.25
    w = ell * F.normalize(draw(D), dim=0)
    across = draw(D)
    across = F.normalize(across - (across @ w) * w / ell**2, dim=0)
    grown = (w - eta * a / ell * across).norm()
    return {"eta": eta, "lambda": decay, "a": a, "ell": ell, "ell_grown": grown}


@lines("03b adam-derive")
def adams_balance(draw):
    eta, decay, a, n = 0.05, 0.3, 1.7, 12
    lengths = {
        "ell_AdamW": (eta * n / (2 * decay)) ** 0.5,
        "ell_Adam": (eta * a * n**0.5 / (2 * decay)) ** (1 / 3),
    }
    return lengths | {"eta": eta, "lambda": decay, "a": a, "n": n}


@lines("01a fold-derive")
def layer_before_the_norm(draw):
    weight, d, u, mean, w, b = draw(3, 2), draw(3), draw(D, 2), draw(3), draw(3), draw(3)
    s = positive(draw, 3)
    x = u @ weight.T + d
    y = w * (x - mean) / s + b
    norm = {"mu_run": mean, "s": s, "w": w, "b": b}
    return {"W": weight, "d": d, "u": u, "x": x, "y": y} | norm


# Statistics


@lines("07a variance-merge")
def two_workers(draw):
    x = draw(5)
    first, second = x[:2], x[2:]
    means = {"mu_a": first.mean(), "mu_b": second.mean(), "mu": x.mean()}
    squares = [(part - part.mean()).square().sum() for part in (first, second, x)]
    sums = dict(zip(("M_a", "M_b", "M"), squares, strict=True))
    return means | sums | {"n_a": 2, "n_b": 3, "m": 5, "d": second.mean() - first.mean()}


@lines("08a holm-derive")
def holm(draw):
    return {"u": 3, "k": 8}


@lines("05a clip-derive")
def clipped_logit(draw):
    tau, m = positive(draw, 2)
    return {"tau": tau, "m": m}


@lines("07a start-why")
def start_of_a_call(draw):
    start, b, w = positive(draw, 3)
    return {"t_start": start, "B": b, "W": w, "t": start + b / w}


# Curves


@lines("05 drag-why")
@lines("lectures/05 One number, dragged")
def dragged_number(draw):
    x = draw(1)[0]
    rho = ((x**2 + 3) / 4).sqrt()
    return {"x": x, "rho": rho, "y": x / rho}


@lines("lectures/05 The two layers")
def size_of_a_row(draw):
    x, w = draw(D), draw(D)
    rho = x.square().mean().sqrt()
    return {"x": x, "w": w, "D": D, "rho": rho, "y": w * x / rho}


@lines("05 scale-why", r"lectures/05 Where the $\sqrt{D}$ goes")
def derived_layer(draw):
    """The derived curve times the norm's gain: a DyT."""
    x, w = draw(D), draw(D)
    size = positive(draw, 1)[0]
    y = w * D**0.5 * (x / (size * D**0.5)).tanh()
    return {"x": x, "w": w, "D": D, "R": size, "alpha": 1 / (size * D**0.5), "y": y}


@lines("05 dyt-formula")
def tanh(draw):
    x, w, b, alpha = draw(D), draw(D), draw(D), draw(1)[0]
    layer = {"x": x, "w": w, "b": b, "alpha": alpha, "y": w * (alpha * x).tanh() + b}
    return layer | {"u": draw(1)[0]}


def frozen(draw, dimension=6.25):
    """The curve with a frozen rho, and its separated equation."""
    x, rho = leaf(draw(1)[0]), positive(draw, 1)[0]
    root = dimension**0.5
    z = x / (rho * root)
    y = root * z.tanh()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return {"x": x, "y": y, "z": z, "u": y / root, "rho": rho, "D": dimension} | {
        "dx": 0.7,
        "dy": 0.7 * slope,
        "A": root / 2,
        "B": root / 2,
        "C": 0.0,
        "artanh()": torch.atanh,
    }


@lines("05 freeze", "05 derive-solution")
@lines("lectures/05 The choice: ρ stands still")
def curve_of_a_frozen_size(draw):
    return frozen(draw)


@lines("05 freeze")
@lines("lectures/05 Separate, and integrate")
def curve_of_64_numbers(draw):
    there = frozen(draw, 64.0)
    separated = {
        "g()": lambda y: 64 / (64 - y**2),
        "G()": lambda y: 8 * torch.as_tensor(y / 8).atanh(),
    }
    return there | separated | {"g": there["dx"] / (there["rho"] * there["dy"]), "A": 4.0}


@lines("05 freeze", "06 derive-ode", "06 derive-bernoulli")
@lines("lectures/05 The choice: ρ stands still")
@lines("lectures/06 Bernoulli: a new unknown makes it linear")
def curve_of_a_moving_size(draw):
    x, c = leaf(positive(draw, 1)[0]), 1.7
    y = D**0.5 * x / (x**2 + c).sqrt()
    u = y**-2
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    helpers = {"u": u, "v": x**2 * u, "m": x**2, "c": c, "C": c / D, "rho": x / y}
    return {"x": x, "y": y, "D": D, "dy": slope} | helpers


@lines("05 freeze")
@lines("lectures/05 The choice: ρ stands still")
def line_of_a_frozen_size(draw):
    x = leaf(draw(1)[0])
    return {"x": x, "y": x / 1.7, "rho": 1.7}


@lines("lectures/05 Two exercises for the room")
def curve_that_falls_with_the_height(draw):
    x, rho, dimension = leaf(positive(draw, 1)[0]), 1.7, 4.0
    root = dimension**0.5
    y = root * (1 - (-x / (rho * root)).exp())
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    separated = {"dx": 0.7, "dy": 0.7 * slope, "C": -root * math.log(root)}
    return {"x": x, "y": y, "rho": rho, "D": dimension} | separated


@lines("06b slopes-why")
def dyt_by_hand(draw):
    x = 2 * row(0, math.log(2), -math.log(3), math.log(3) / 2)
    return {"x": x, "t": (x / 2).tanh(), "w": row(1, 1, 2, 1), "alpha": 1.0}


@lines("06b derive-gradient", "06b slopes-why")
def dyt_number(draw):
    x, alpha, w, b = (leaf(number) for number in draw(4))
    kappa = 1.7
    u = alpha * x / kappa
    t = u.tanh()
    curve = {"x": x, "alpha": alpha, "w": w, "b": b, "kappa": kappa, "u": u}
    return curve | {"t": t, "y": w * kappa * t + b, "s": w * alpha * (1 - t**2)}


@lines("06 failure-why")
def level(draw):
    x, alpha, kappa = draw(1)[0], 0.7, 8.0
    return {
        "x": x,
        "alpha": alpha,
        "kappa": kappa,
        "y": kappa * (alpha * x / kappa).tanh(),
        "D": 64,
    }


@lines("06 ex2", "06 derive-gradient", "solutions/06 ex2")
@lines("lectures/06 The layer DyISRU, and its slope")
def dyisru_number(draw):
    x, c, kappa = leaf(draw(1)[0]), leaf(1.7), 2.3
    return {"x": x, "c": c, "kappa": kappa, "y": kappa * x / (x**2 + c).sqrt()}


@lines("06 predict-03-read", "06 whole-derive", "solutions/06 ex3")
def whole_of_an_outlier(draw):
    x, c = draw(1)[0], 1.7
    rho = ((x**2 + c) / D) ** 0.5
    return {"x": x, "c": c, "D": D, "rho": rho, "p": c / (x**2 + c), "u": x / c**0.5}


@lines("06a derf-derive", "06a derf-why", "solutions/06a ex4")
def derf(draw):
    x, alpha, s = (leaf(number) for number in draw(3))
    u = alpha * x + s

    def slope(v):
        (found,) = torch.autograd.grad(v.erf(), v, create_graph=True)
        return found

    return {"x": x, "alpha": alpha, "s": s, "u": u, "h()": slope}


# Differences


def polynomial(draw, degree):
    a = draw(degree + 1)

    def f(v):
        return sum(a[k] * v**k for k in range(degree + 1))

    x = leaf(draw(1)[0])
    return {"f()": f, "f": f(x), "x": x, "h": 0.3, "dots": 0.0, "i": 1j}


@lines("04a complex-why", "04a steps-derive")
def polynomial_of_degree_three(draw):
    """All that the dots stand for is 0."""
    return polynomial(draw, 3)


@lines("04a steps-derive")
def best_step(draw):
    a, b = positive(draw, 2)
    return {"A": a, "B": b, "m": 3, "h": (b / (3 * a)) ** (1 / 4)}


# Slides alone


@lines("lectures/00 Predicted, and measured")
def start_of_torch(draw):
    return {"n": 64, "v": 1 / 192}


@lines("lectures/00 Second repair: go around the layer")
def layer_with_a_shortcut(draw):
    h = draw(D)
    return {"h": h, "F()": torch.tanh, "h_next": h + h.tanh()}


@lines("lectures/03 Why the mean hurts: a product")
def row_and_column(draw):
    weights = draw(D)
    return {"h": draw(D), "W": weights, "m": weights.mean()}


@lines("lectures/05 Two exercises for the room")
def paper_form_of_a_norm(draw):
    """A DyT at 0 has the slope of the norm, 1/2, and far out its height, 4."""
    return {"D": 16, "rho": 2, "w": 1, "alpha": 0.5 / 4}


@lines("lectures/07 Count bytes by hand")
def two_rows_of_four_numbers(draw):
    return {"B": 32, "W": 8, "t": 4}


@lines("lectures/08 How sure is one difference?")
def two_contenders(draw):
    d = row(3, 1, 2, 2, 2)
    results = {"a": row(5, 4, 3, 4, 6), "b": row(2, 3, 1, 2, 4)}
    return results | {"d": d, "m": d.mean(), "s": d.std()}
