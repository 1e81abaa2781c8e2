"""Checks of lesson 05a: the scale and bound of a logit, softmax, a softcap, attention, QK-clip.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from normcourse import draw, measures
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import exercise, expect
from normlib import functional

MOMENTS = {"d": 64, "mean_q": 0.5, "std_q": 1.5, "mean_k": -2.0, "std_k": 0.7}
SCALES = {  # v: MOMENTS and the variance of the logit
    "1/sqrt(d) is right for means 0 and variances 1 only.": lambda v: v.d**-0.5,
    "1/d is for a mean of d terms; "
    "a sum of d independent ones has d times the variance.": lambda v: 1 / v.d,
    "the means are missing: where q's mean is not 0, k's variance passes through it.": (
        lambda v: 1 / (math.sqrt(v.d) * v.std_q * v.std_k)
    ),
    "that is E q^2 E k^2; take the squared mean of the product off it.": (
        lambda v: 1 / math.sqrt(v.d * (v.std_q**2 + v.mean_q**2) * (v.std_k**2 + v.mean_k**2))
    ),
    "the means are exchanged: q's variance goes with k's mean, and the reverse.": (
        lambda v: (
            1
            / math.sqrt(
                v.d
                * ((v.std_q * v.std_k) ** 2 + (v.std_q * v.mean_q) ** 2 + (v.std_k * v.mean_k) ** 2)
            )
        )
    ),
    "divide by the standard deviation of the logit, not by its variance.": lambda v: 1 / v.variance,
    "that is the standard deviation of the logit; the factor is its inverse.": lambda v: math.sqrt(
        v.variance
    ),
    "that is the variance of the logit; the factor is one over its root.": lambda v: v.variance,
    "a std is not a variance: square std_q and std_k.": (
        lambda v: (
            1 / math.sqrt(v.d * (v.std_q * v.std_k + v.std_q * v.mean_k**2 + v.std_k * v.mean_q**2))
        )
    ),
    "d is missing: the logit is a sum of d terms.": lambda v: math.sqrt(v.d / v.variance),
    "d stands under the root, too: a standard deviation grows like sqrt(d).": lambda v: (
        (v.d * v.variance) ** -0.5
    ),
    "one of two mixed terms is missing: k's variance also passes through q's mean.": lambda v: (
        1 / math.sqrt(v.d * v.std_q**2 * (v.std_k**2 + v.mean_k**2))
    ),
    "one of two mixed terms is missing: q's variance also passes through k's mean.": lambda v: (
        1 / math.sqrt(v.d * v.std_k**2 * (v.std_q**2 + v.mean_q**2))
    ),
    "variances add up in a sum; q k is a product.": lambda v: (
        1 / math.sqrt(v.d * (v.std_q**2 + v.std_k**2))
    ),
    "that is the mean square of q - k; a logit adds up products.": lambda v: (
        1 / math.sqrt(v.d * (v.std_q**2 + v.std_k**2 + (v.mean_q - v.mean_k) ** 2))
    ),
    "the means do not come in by their difference: each stands beside the other's variance.": (
        lambda v: 1 / math.sqrt(v.d * ((v.std_q * v.std_k) ** 2 + (v.mean_q - v.mean_k) ** 2))
    ),
    "a mean stands beside the other's variance, not beside the other mean.": lambda v: (
        1 / math.sqrt(v.d * ((v.std_q * v.std_k) ** 2 + (v.mean_q * v.mean_k) ** 2))
    ),
    "the arguments come in the order d, mean_q, std_q, mean_k, std_k.": lambda v: (
        1
        / math.sqrt(
            v.d
            * ((v.mean_k * v.std_k) ** 2 + (v.mean_k * v.std_q) ** 2 + (v.std_k * v.mean_q) ** 2)
        )
    ),
}


@exercise("Exercise 1 (the scale of a logit)", "means are not 0", "variance 1")
def scale(student) -> None:
    """student(d, mean_q, std_q, mean_k, std_k): the factor that gives q.k the variance 1.

    The entries of q and k are independent.
    """
    slips = {message: _scaled(wrong) for message, wrong in SCALES.items()}
    right = _scaled(lambda v: v.variance**-0.5)
    standard = {"d": 16, "mean_q": 0.0, "std_q": 1.0, "mean_k": 0.0, "std_k": 1.0}
    others = {"d": 9, "mean_q": -1.2, "std_q": 0.4, "mean_k": 0.6, "std_k": 2.0}
    calls(student, right, MOMENTS, standard, others, slips=slips, what="the scale")


def _scaled(formula: Callable) -> Callable:
    """A function of the moments from one of v: the moments and the variance of the logit."""

    def answer(d: int, mean_q: float, std_q: float, mean_k: float, std_k: float) -> float:
        v = SimpleNamespace(d=d, mean_q=mean_q, std_q=std_q, mean_k=mean_k, std_k=std_k)
        v.variance = measures.logit_variance(d, std_q, std_k, mean_q, mean_k)
        try:
            return formula(v)
        except ZeroDivisionError:  # a wrong formula, where the means are 0
            return math.inf

    return answer


@exercise("Exercise 2 (the softmax's Jacobian)")
def softmax_jacobian(student: Callable) -> None:
    """student(p) -> (..., n, n).

    [EQ-SOFTMAX-JACOBIAN]
    """
    cases = [{"p": draw(5).softmax(-1)}, {"p": draw(3, 2, 4, seed=1).softmax(-1)}]
    calls(forbid(student, "autograd", "normlib"), _jacobian, *cases, slips=JACOBIANS)


def _outer(p: Tensor) -> Tensor:
    return p[..., :, None] * p[..., None, :]


def _jacobian(p: Tensor) -> Tensor:
    return p.diag_embed() - _outer(p)


JACOBIANS = {
    "only the diagonal is there; each weight moves with every logit, by -p_i p_j.": lambda p: (
        p * (1 - p)
    ).diag_embed(),
    "on the diagonal it is p_i (1 - p_i): both parts of the quotient rule.": lambda p: (
        p.diag_embed() - _outer(p) + _outer(p).diagonal(dim1=-2, dim2=-1).diag_embed()
    ),
    "the part with the denominator is missing: subtract p_i p_j.": lambda p: p.diag_embed(),
    "the diagonal is missing: the numerator moves, too.": lambda p: -_outer(p),
    "the sign: a larger logit raises its own weight, and lowers the others.": lambda p: (
        _outer(p) - p.diag_embed()
    ),
    "subtract p_i p_j, do not add it.": lambda p: p.diag_embed() + _outer(p),
    "the diagonal of p, not the identity: 1 is there without its factor p_i.": lambda p: (
        torch.eye(p.shape[-1], dtype=p.dtype) - _outer(p)
    ),
    "the factor p_j is missing beside the diagonal.": lambda p: (
        p.diag_embed() - p[..., :, None].expand(_outer(p).shape)
    ),
    "beside the diagonal the sign is minus: a larger logit lowers the other weights.": lambda p: (
        (p * (1 - p)).diag_embed() + _outer(p) - _outer(p).diagonal(dim1=-2, dim2=-1).diag_embed()
    ),
    "row i has the factor p_i in front, and p_j in the bracket.": lambda p: (
        p[..., None, :] * (torch.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :])
    ),
    "row i has p_i in front, but p_j in the bracket, not p_i.": lambda p: (
        p[..., :, None] * (torch.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None])
    ),
    "p are weights already; do not apply the softmax again.": lambda p: _jacobian(p.softmax(-1)),
    "the factor p_i in front is missing; yours is the derivative of ln p.": lambda p: (
        torch.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :]
    ),
}


@exercise("Exercise 3 (causal attention with a cap)")
def capped_attention(student: Callable) -> None:
    """student(q, k, cap) -> weights (tokens, tokens)."""
    cases = [
        {"q": 3 * draw(6, 4, seed=3), "k": draw(6, 4, seed=4), "cap": 3.0},
        {"q": 2 * draw(5, 9, seed=5), "k": draw(5, 9, seed=6), "cap": 1.2},
    ]
    slips = {message: _attention(wrong) for message, wrong in ATTENTION.items()}
    calls(student, _attention(lambda v: attend(v.cap_of(v.logits))), *cases, slips=slips)


def _attention(formula: Callable) -> Callable:
    """A function of (q, k, cap) from one of v: the logits, the cap, sqrt(d), the past."""

    def weights(q: Tensor, k: Tensor, cap: float) -> Tensor:
        root = math.sqrt(q.shape[-1])
        logits = q @ k.T / root
        past = torch.ones(logits.shape, dtype=torch.bool).tril()
        return formula(
            SimpleNamespace(
                logits=logits,
                cap=cap,
                root=root,
                past=past,
                cap_of=lambda x: functional.softcap(x, cap),
            )
        )

    return weights


ATTENTION = {
    "masked before the cap: softcap turns -inf into -cap, "
    "and the future leaks in (onnx #7865).": lambda v: v.cap_of(masked(v.logits)).softmax(-1),
    "the cap is missing; tanh lies between -1 and 1, so multiply by cap.": lambda v: attend(
        (v.logits / v.cap).tanh()
    ),
    "divide by cap inside tanh, or the slope at 0 is not 1.": lambda v: attend(
        v.cap * v.logits.tanh()
    ),
    "logit times tanh caps nothing; the factor is cap (unsloth-zoo #593).": lambda v: attend(
        v.logits * (v.logits / v.cap).tanh()
    ),
    "that is a hard clip; softcap is smooth.": lambda v: attend(v.logits.clamp(-v.cap, v.cap)),
    "there is no cap in it.": lambda v: attend(v.logits),
    "divide the logits by sqrt(d).": lambda v: attend(v.cap_of(v.logits * v.root)),
    "divide by sqrt(d), not by d.": lambda v: attend(v.cap_of(v.logits / v.root)),
    "sqrt(d) has the width d of a query, not the number of tokens.": lambda v: attend(
        v.cap_of(v.logits * v.root / math.sqrt(len(v.logits)))
    ),
    "scale first, then cap; in your order the cap is cap / sqrt(d).": lambda v: attend(
        v.cap_of(v.logits * v.root) / v.root
    ),
    "no causal mask: row i may look at columns 0 to i.": lambda v: v.cap_of(v.logits).softmax(-1),
    "a token may see itself; mask only what comes after it.": lambda v: masked(
        v.cap_of(v.logits), 0
    ).softmax(-1),
    "the mask begins one diagonal too late: row i still sees column i + 1.": lambda v: masked(
        v.cap_of(v.logits), 2
    ).softmax(-1),
    "masked after the softmax: the rows no longer sum to 1.": lambda v: (
        v.cap_of(v.logits).softmax(-1).tril()
    ),
    "masked with 0 before the softmax: exp(0) is 1; fill with -inf.": lambda v: (
        v.cap_of(v.logits).tril().softmax(-1)
    ),
    "the mask is upside down: row i may look at columns 0 to i.": lambda v: (
        v.cap_of(v.logits).masked_fill(~v.past.T, -math.inf).softmax(-1)
    ),
    "rows are queries, columns keys: q @ k.T, not k @ q.T.": lambda v: attend(v.cap_of(v.logits.T)),
    "softmax runs over the keys, the last axis.": lambda v: masked(v.cap_of(v.logits)).softmax(0),
    "the cap belongs on the logits, before the softmax.": lambda v: v.cap_of(attend(v.logits)),
    "these are logits; the softmax is missing.": lambda v: masked(v.cap_of(v.logits)),
}


def masked(logits: Tensor, diagonal: int = 1) -> Tensor:
    """-inf from the given diagonal on."""
    future = torch.ones(logits.shape, dtype=torch.bool).triu(diagonal)
    return logits.masked_fill(future, -math.inf)


def attend(logits: Tensor) -> Tensor:
    return masked(logits).softmax(-1)


HEAD, QUERY_GAIN, KEY_GAIN = 64, 2, 1.5


@exercise(
    "Exercise 4 (the largest logit)",
    f"A head has {HEAD} numbers",
    f"query norm is {QUERY_GAIN}",
    f"key norm is {KEY_GAIN}",
    "As in Gemma 4, nothing is divided",
)
def largest_logit(answer) -> None:
    """The bound of a logit that is not divided, for 64 numbers and largest gains of 2 and 1.5.

    [EQ-QK-NORM]
    """
    slips = {
        "that is the bound with the division by the root of D; here nothing is divided.": 8 * 3.0,
        "divided by D: the sum is at most D times the gains.": 3.0,
        "the root of D stands above the line: multiply by it, do not divide.": 3 / 8,
        "both gains count: multiply by 1.5 as well.": 64 * 2.0,
        "both gains count: multiply by 2 as well.": 64 * 1.5,
        "the gains are missing: multiply by both.": 64.0,
        "two things are missing: both gains, and the second root of D.": 8.0,
        "two things are missing: the gain 1.5, and the second root of D.": 8 * 2.0,
        "two things are missing: the gain 2, and the second root of D.": 8 * 1.5,
        "that is the key's gain alone: multiply by 2 and by D as well.": 1.5,
        "that is the query's gain alone: multiply by 1.5 and by D as well.": 2.0,
        "the gains are multiplied with each other, not added.": 64 * 3.5,
        "the gains are not squared.": 64 * 9.0,
        "each gain counts once: you took 1.5 twice.": 64 * 2 * 1.5**2,
        "each gain counts once: you took 2 and no 1.5.": 64 * 4.0,
        "each length is the root of D: together they are D, not its square.": 64 * 64 * 3.0,
        "D counts once: its root is in it.": 64 * 8 * 3.0,
        "twice too large: each gain counts once; the largest size is asked, not a range.": (
            64 * 3.0 * 2
        ),
        "the size of a logit is bounded: give the positive number.": -64 * 3.0,
    }
    right = HEAD * QUERY_GAIN * KEY_GAIN
    expect(answer, right, slips, what="the largest logit", rtol=1e-3)


@exercise("Exercise 5 (QK-clip)")
def qk_clip(student: Callable) -> None:
    """student(query, key, largest, tau) -> (query, key), both (heads, width, D)."""
    cases: list[dict[str, Any]] = [
        {"query": draw(3, 5, 3), "key": draw(3, 5, 3, seed=1), "largest": THREE, "tau": 10.0},
        {"query": draw(4, 2, 4), "key": draw(4, 2, 4, seed=1), "largest": FOUR, "tau": 2.0},
    ]
    slips = {message: _clip(wrong) for message, wrong in CLIPS.items()}
    names = ("the new query", "the new key")
    calls(student, both_clipped, *cases, slips=slips, what=names)
    below = [{**case, "largest": case["largest"] - 9.5} for case in cases]
    negative = {message: _clip(wrong) for message, wrong in BELOW_ZERO.items()}
    calls(student, both_clipped, *below, slips=negative, what=names)


# as many heads as numbers of a head, so that factors on the wrong axis are a slip with a name
THREE = torch.tensor([8.0, 30.0, 12.0], dtype=torch.float64)
FOUR = torch.tensor([9.0, 1.5, 2.5, 0.5], dtype=torch.float64)


def _clip(factors: Callable) -> Callable:
    """A function of (query, key, largest, tau) from the factors of both, made of v."""

    def clipped(query: Tensor, key: Tensor, largest: Tensor, tau: float) -> tuple[Tensor, Tensor]:
        v = SimpleNamespace(query=query, key=key, largest=largest, tau=tau)
        v.free = tau / largest[:, None, None]
        v.gamma = tau / largest[:, None, None].clamp(min=tau)  # 1 also where largest is below 0
        v.root = v.gamma.sqrt()
        of_query, of_key = factors(v)
        return of_query * query, of_key * key

    return clipped


both_clipped = _clip(lambda v: (v.root, v.root))  # in the reader's place until that is right
BELOW_ZERO = {
    "a head with a negative m is not above tau and keeps its matrices; "
    "tau / m is negative there, and its root is NaN.": lambda v: (
        v.free.clamp(max=1).sqrt(),
        v.free.clamp(max=1).sqrt(),
    ),
    "a head with a negative m is not above tau and keeps its matrices; yours become 0.": lambda v: (
        v.free.clamp(0, 1).sqrt(),
        v.free.clamp(0, 1).sqrt(),
    ),
}
CLIPS = {
    "nothing is clipped; heads above tau get smaller matrices.": lambda v: (1.0, 1.0),
    "both factors count: together they shrink the logit too much; "
    "each is the root of tau / largest.": lambda v: (v.gamma, v.gamma),
    "only the query shrinks; both matrices get the same factor, a root each.": lambda v: (
        (v.gamma, 1.0)
    ),
    "only the key shrinks; both matrices get the same factor, a root each.": lambda v: (
        (1.0, v.gamma)
    ),
    "the query shrinks by the root, but the key does not.": lambda v: (v.root, 1.0),
    "the key shrinks by the root, but the query does not.": lambda v: (1.0, v.root),
    "a head that is not above tau keeps its matrices; yours grow.": lambda v: (
        (v.free.sqrt(), v.free.sqrt())
    ),
    "a head above tau shrinks, the others keep theirs; it is the other way round here.": lambda v: (
        (v.free.clamp(min=1).sqrt(), v.free.clamp(min=1).sqrt())
    ),
    "heads that are not above tau keep their matrices; "
    "yours grow, and the root is missing.": lambda v: (v.free, v.free),
    "the factor is tau / largest, not largest / tau: the matrices must shrink.": lambda v: (
        (1 / v.root, 1 / v.root)
    ),
    "each head has its own factor; one large head must not shrink the others.": lambda v: (
        (v.root.min(), v.root.min())
    ),
    "halving is not the root: each factor is the root of tau / largest.": lambda v: (
        (v.gamma / 2, v.gamma / 2)
    ),
    "one root is enough: yours is the fourth root.": lambda v: (v.root.sqrt(), v.root.sqrt()),
    "the factors stand on the last axis; the heads are the first one: [:, None, None].": lambda v: (
        (v.root.flatten(), v.root.flatten())
    ),
    "limit the logits, by one factor for a head, and not the entries of the matrices.": lambda v: (
        (v.query.clamp(-v.tau, v.tau) / v.query, v.key.clamp(-v.tau, v.tau) / v.key)
    ),
    "the new query comes first, then the new key.": lambda v: (
        (v.root * v.key / v.query, v.root * v.query / v.key)
    ),
}
