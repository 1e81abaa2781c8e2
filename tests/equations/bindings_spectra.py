"""Bindings of lesson 00: eigenvalues, singular values, products of matrices, gradient descent."""

import torch

from normcourse import measures
from tests.equations.bindings import EPS, D, bind


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def extremes(matrix):
    values = torch.linalg.svdvals(matrix)
    return {"sigma_max": values[0], "sigma_min": values[-1]}


@bind("EQ-SPECTRAL-RADIUS")
def spectral_radius(draw):
    def case(matrix):
        found = {"rho": measures.spectral_radius(matrix), "c": measures.spectral_norm(matrix)}
        return found | {"lambda": torch.linalg.eigvals(matrix)}

    matrix = draw(D, D)
    return [case(matrix), case(matrix + matrix.T)]


@bind("EQ-POWERS")
def powers(draw):
    def case(matrix, t):
        norms = dict(enumerate(measures.power_norms(matrix, 4)))
        return {"n": norms, "t": t} | {
            "rho": measures.spectral_radius(matrix),
            "c": measures.spectral_norm(matrix),
        }

    normal = torch.diag(number([0.5, -1.3, 0.2]))
    return [*(case(draw(D, D), t) for t in (1, 2, 3)), case(normal, 3), case(0.5 * normal, 2)]


@bind("EQ-JORDAN")
def jordan(draw):
    power = torch.linalg.matrix_power(number([[0.8, 3.0], [0.0, 0.8]]), 5)
    return {"P": power, "a": 0.8, "b": 3.0, "t": 5}


@bind("EQ-ROW-STOCHASTIC")
def row_stochastic(draw):
    def case(matrix):
        sizes = measures.eigenvalue_sizes(matrix)
        return {"A": matrix, "rho": sizes[0], "c": measures.spectral_norm(matrix), "n": D}

    sink = torch.eye(D).double()[[1] * D]
    return [case((2 * draw(D, D)).softmax(-1)), case(sink), case(torch.eye(D).double().roll(1, 0))]


@bind("EQ-RESIDUAL")
def residual(draw):
    def case(branch):
        block = torch.eye(D).double() + branch
        low, high = measures.residual_bounds(branch)
        found = {"R": block, "J": branch, "c": high - 1, **extremes(block)}
        assert low == max(0, 2 - high)
        eigenvalues = (torch.linalg.eigvals(m).real.sort().values for m in (branch, block))
        return found | dict(zip(("lambda", "r"), eigenvalues, strict=True))

    basis, eye = draw(D, D), torch.eye(D).double()
    # real eigenvalues
    branch = basis @ torch.diag(number([0.4, -0.1, 0.2, -0.5])) @ torch.linalg.inv(basis)
    return [case(branch), case(0.3 * eye), case(-0.3 * eye)]


@bind("EQ-RESIDUAL-CHAIN")
def residual_chain(draw):
    def case(first, second):
        a, b = (torch.eye(D).double() + branch for branch in (first, second))
        norms = (measures.spectral_norm(branch) for branch in (first, second))
        return {
            "A": a,
            "B": b,
            "P": b @ a,
            "D": D,
            **dict(zip("ab", norms, strict=True)),
            **extremes(b @ a),
        }

    def branch(size):
        matrix = draw(D, D)
        return size * matrix / measures.spectral_norm(matrix)

    eye = torch.eye(D).double()
    return [
        case(branch(0.3), branch(0.6)),
        case(0.3 * eye, 0.6 * eye),
        case(-0.3 * eye, -0.6 * eye),
    ]


# Rank and bounds


@bind("EQ-RANK-ENTROPY")
def effective_rank(draw):
    matrix = draw(D, 6)
    values = torch.linalg.svdvals(matrix)
    symbols = {"sigma": values, "p": values / values.sum(), "D": D}
    return symbols | {"r": measures.effective_rank(matrix)}


@bind("EQ-RANK-STABLE")
def stable_rank(draw):
    matrix = draw(D, 6)
    return {"sigma": torch.linalg.svdvals(matrix), "r": measures.stable_rank(matrix), "D": D}


@bind("EQ-RANK-NUMERICAL")
def numerical_rank(draw):
    def step(value):
        return float(value > 0)

    values = number([1.4, EPS, 0.2, 0.1])
    rank = measures.numerical_rank(torch.diag(values), EPS)
    return {"sigma": values, "varepsilon": EPS, "r": rank, "step": step, "D": D}


@bind("EQ-CONDITION")
def condition(draw):
    matrix = draw(3, D)
    return {"cond": measures.condition_number(matrix), **extremes(matrix)}


@bind("EQ-SINGULAR-BOUNDS")
def singular_bounds(draw):
    def case(weight, g):
        low, high = measures.gradient_bounds(weight)
        return {
            "W": weight,
            "g": g,
            "d": weight.T @ g,
            "n": len(g),
            "sigma_low": low,
            "sigma_max": high,
        }

    wide, tall = draw(3, 5), draw(5, 3)
    u = torch.linalg.svd(wide).U
    lost = torch.linalg.svd(tall).U[:, -1]
    random = [case(wide, draw(3)), case(tall, draw(5)), case(tall, lost)]
    return [*random, case(wide, 2 * u[:, 0]), case(wide, 2 * u[:, -1])]


@bind("EQ-CHAIN-BOUND")
def chain_bound(draw):
    def case(matrices):
        bound = measures.chain_bound(matrices)
        norms = measures.spectral_norm(matrices)
        assert torch.isclose(bound, norms.prod())
        return {
            "n_chain": measures.spectral_norm(matrices[2] @ matrices[1] @ matrices[0]),
            "c": norms,
            "K": 3,
        }

    scaled = torch.stack([torch.diag(number(v)) for v in ([2.0, 1.0], [-3.0, 0.5], [1.5, 1.0])])
    return [case(draw(3, D, D)), case(scaled)]


@bind("EQ-PATH-NORM")
def path_norm(draw):
    first, second = draw(3, D), draw(2, 3)
    return {
        "W": first,
        "V": second,
        "psi": measures.path_norm([first, second]),
        "K": 2,
        "n": 3,
        "D": D,
    }


# Gradient descent


@bind("EQ-GD-QUADRATIC")
def gd_quadratic(draw):
    eigenvalues = number([0.5, 1.0, 1.7])

    def case(start, step):
        path = measures.descend(torch.diag(eigenvalues), start, step, 3)
        # what one step does to any start: the spectral norm of its matrix
        factor = torch.linalg.matrix_norm(torch.eye(3) - step * torch.diag(eigenvalues), 2)
        return {
            "e": {k: e.numpy() for k, e in enumerate(path)},
            "a": eigenvalues,
            "eta": step,
            "r": factor,
        }

    slowest = number([2.0, 0.0, 0.0])
    return [case(slowest, 0.4), case(draw(3), 0.4), case(draw(3), 1.4)]


@bind("EQ-GD-STEPS")
def gd_steps(draw):
    m, largest = 0.5, 1.7
    step, rate = measures.best_step(m, largest)
    one_step = torch.eye(3) - torch.diag(number([m, 1.0, largest])) / largest
    safe = torch.linalg.matrix_norm(one_step, 2)
    symbols = {"m": m, "M": largest, "cond": largest / m}
    return symbols | {"r_safe": safe, "eta_best": step, "r_best": rate}
