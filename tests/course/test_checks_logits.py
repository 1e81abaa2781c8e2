"""The checks of lesson 05a name the slips people make, and accept answers written otherwise."""

import math

import pytest
import torch

from normcourse import draw
from normcourse.checks import logits as check
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def test_writing_into_an_input_is_named():
    assert "q was changed in place" in check.capped_attention(lambda q, k, cap: q.mul_(2))
    assert "p was changed in place" in check.softmax_jacobian(lambda p: p.mul_(2))


def outer(p):
    return p.unsqueeze(-1) * p.unsqueeze(-2)


def eye(p):
    return torch.eye(p.shape[-1])


WRONG_JACOBIANS = {
    "diagonal alone": (lambda p: torch.diag_embed(p - p**2), "only the diagonal"),
    "p on the diagonal": (
        lambda p: torch.where(eye(p) > 0, p.unsqueeze(-1), -outer(p)),
        "both parts",
    ),
    "no denominator": (lambda p: torch.diag_embed(p), "denominator is missing"),
    "no diagonal": (lambda p: -outer(p), "the diagonal is missing"),
    "sign": (lambda p: outer(p) - torch.diag_embed(p), "raises its own weight"),
    "added": (lambda p: torch.diag_embed(p) + outer(p), "do not add"),
    "identity": (lambda p: eye(p) - outer(p), "not the identity"),
    "p_i alone": (lambda p: torch.diag_embed(p) - p.unsqueeze(-1).expand_as(outer(p)), "p_j"),
    "no p_i": (lambda p: eye(p) - p.unsqueeze(-2), "in front"),
    "of the logarithm": (
        lambda p: (torch.diag_embed(p) - outer(p)) / p.unsqueeze(-1),
        "in front is missing",
    ),
    "plus beside the diagonal": (
        lambda p: torch.where(eye(p) > 0, (p - p**2).unsqueeze(-1), outer(p)),
        "the sign is minus",
    ),
    "p_j for p_i": (lambda p: (eye(p) - p.unsqueeze(-2)) * p.unsqueeze(-2), "row i has the factor"),
    "p_i for p_j": (lambda p: (eye(p) - p.unsqueeze(-1)) * p.unsqueeze(-1), "but p_j"),
    "softmax again": (
        lambda p: torch.diag_embed(p.softmax(-1)) - outer(p.softmax(-1)),
        "weights already",
    ),
    "halved": (lambda p: (torch.diag_embed(p) - outer(p)) / 2, "off by"),
    "one row only": (lambda p: torch.diag(p.flatten()) - torch.outer(*[p.flatten()] * 2), "shape"),
}


@pytest.mark.parametrize("wrong, message", WRONG_JACOBIANS.values(), ids=WRONG_JACOBIANS)
def test_a_wrong_jacobian_is_named(wrong, message):
    verdict = check.softmax_jacobian(wrong)
    assert verdict.startswith("[x]") and message in verdict


def test_the_jacobian_may_be_written_otherwise():
    assert (
        check.softmax_jacobian(lambda p: p.unsqueeze(-1) * (eye(p) - p.unsqueeze(-2)))[:4] == "[ok]"
    )


def test_autograd_is_refused():
    def by_autograd(p):
        return torch.autograd.functional.jacobian(lambda x: x.softmax(-1), p.log())

    assert "without autograd" in check.softmax_jacobian(by_autograd)


def cap_of(logits, cap):
    return cap * torch.tanh(logits / cap)


def masked(logits, diagonal=1):
    future = torch.ones(logits.shape, dtype=torch.bool).triu(diagonal)
    return logits.masked_fill(future, -math.inf)


ATTENTIONS = {  # of the products, the cap, and the root of the width
    "mask first": (lambda raw, c, r: cap_of(masked(raw / r), c).softmax(-1), "onnx #7865"),
    "no factor cap": (
        lambda raw, c, r: masked(torch.tanh(raw / r / c)).softmax(-1),
        "multiply by cap",
    ),
    "no division by cap": (
        lambda raw, c, r: masked(c * torch.tanh(raw / r)).softmax(-1),
        "slope at 0",
    ),
    "times the logit": (
        lambda raw, c, r: masked(raw / r * torch.tanh(raw / r / c)).softmax(-1),
        "unsloth-zoo #593",
    ),
    "hard clip": (lambda raw, c, r: masked((raw / r).clamp(-c, c)).softmax(-1), "hard clip"),
    "no cap": (lambda raw, c, r: masked(raw / r).softmax(-1), "no cap"),
    "not scaled": (
        lambda raw, c, r: masked(cap_of(raw, c)).softmax(-1),
        "divide the logits by sqrt(d)",
    ),
    "scaled by d": (lambda raw, c, r: masked(cap_of(raw / r**2, c)).softmax(-1), "not by d"),
    "scaled last": (lambda raw, c, r: masked(cap_of(raw, c) / r).softmax(-1), "scale first"),
    "scaled by the tokens": (
        lambda raw, c, r: masked(cap_of(raw / len(raw) ** 0.5, c)).softmax(-1),
        "number of tokens",
    ),
    "no mask": (lambda raw, c, r: cap_of(raw / r, c).softmax(-1), "no causal mask"),
    "blind to itself": (
        lambda raw, c, r: masked(cap_of(raw / r, c), 0).softmax(-1),
        "may see itself",
    ),
    "masked too late": (lambda raw, c, r: masked(cap_of(raw / r, c), 2).softmax(-1), "too late"),
    "masked last": (lambda raw, c, r: cap_of(raw / r, c).softmax(-1).tril(), "no longer sum"),
    "masked with 0": (lambda raw, c, r: cap_of(raw / r, c).tril().softmax(-1), "exp(0)"),
    "upside down": (lambda raw, c, r: masked(cap_of(raw / r, c).T).T.softmax(-1), "upside down"),
    "softmax over rows": (lambda raw, c, r: masked(cap_of(raw / r, c)).softmax(0), "last axis"),
    "cap last": (lambda raw, c, r: cap_of(masked(raw / r).softmax(-1), c), "before the softmax"),
    "no softmax": (lambda raw, c, r: masked(cap_of(raw / r, c)), "softmax is missing"),
    "transposed": (lambda raw, c, r: masked(cap_of(raw.T / r, c)).softmax(-1), "not k @ q.T"),
    "halved again": (lambda raw, c, r: masked(cap_of(raw / r, c) / 2).softmax(-1), "off by"),
}


@pytest.mark.parametrize("wrong, message", ATTENTIONS.values(), ids=ATTENTIONS)
def test_wrong_attention_is_named(wrong, message):
    verdict = check.capped_attention(lambda q, k, cap: wrong(q @ k.T, cap, q.shape[-1] ** 0.5))
    assert verdict.startswith("[x]") and message in verdict


def by_moments(q, k):
    """A scale from d times what q(mean, std) and k(mean, std) give."""
    return lambda d, mq, sq, mk, sk: 1 / math.sqrt(d * (q(mq, sq) * k(mk, sk)))


def mean_square(mean, std):
    return std**2 + mean**2


def variance_of_logit(d, mq, sq, mk, sk):
    return d * (sq**2 * sk**2 + sq**2 * mk**2 + sk**2 * mq**2)


def exchanged(d, mq, sq, mk, sk):
    return 1 / math.sqrt(d * (sq**2 * sk**2 + sq**2 * mq**2 + sk**2 * mk**2))


def std_for_variance(d, mq, sq, mk, sk):
    return 1 / math.sqrt(d * (sq * sk + sq * mk**2 + sk * mq**2))


SCALES = {
    "1 / sqrt(d)": (lambda d, *moments: d**-0.5, "for means 0 and variances 1 only"),
    "1 / d": (lambda d, *moments: 1 / d, "1/d is for a mean"),
    "no means": (by_moments(lambda m, s: s**2, lambda m, s: s**2), "the means are missing"),
    "E q^2 E k^2": (by_moments(mean_square, mean_square), "that is E q^2 E k^2"),
    "exchanged": (exchanged, "the means are exchanged"),
    "by the variance": (lambda *m: 1 / variance_of_logit(*m), "not by its variance"),
    "standard deviation": (
        lambda *m: math.sqrt(variance_of_logit(*m)),
        "the factor is its inverse",
    ),
    "variance": (variance_of_logit, "one over its root"),
    "std for variance": (std_for_variance, "square std_q and std_k"),
    "d outside the root": (
        lambda d, *m: (d * variance_of_logit(d, *m)) ** -0.5,
        "d stands under the root",
    ),
    "d forgotten": (lambda d, *m: variance_of_logit(1, *m) ** -0.5, "a sum of d terms"),
    "no mean of q": (by_moments(lambda m, s: s**2, mean_square), "also passes through q's mean"),
    "no mean of k": (by_moments(mean_square, lambda m, s: s**2), "also passes through k's mean"),
    "sum of variances": (
        lambda d, mq, sq, mk, sk: (d * (sq**2 + sk**2)) ** -0.5,
        "variances add up in a sum",
    ),
    "mean square of the difference": (
        lambda d, mq, sq, mk, sk: (d * (sq**2 + sk**2 + (mq - mk) ** 2)) ** -0.5,
        "the mean square of q - k",
    ),
    "difference of the means": (
        lambda d, mq, sq, mk, sk: (d * (sq**2 * sk**2 + (mq - mk) ** 2)) ** -0.5,
        "by their difference",
    ),
    "product of the means": (
        lambda d, mq, sq, mk, sk: (d * (sq**2 * sk**2 + mq**2 * mk**2)) ** -0.5,
        "not beside the other mean",
    ),
    "order of the arguments": (
        lambda d, mq, mk, sq, sk: variance_of_logit(d, mq, sq, mk, sk) ** -0.5,
        "the arguments come in the order",
    ),
    "d fixed": (lambda d, *m: variance_of_logit(64, *m) ** -0.5, "the scale for d = 16"),
    "a half": (  # 0.036 alone says little to who sees a small number
        lambda *m: variance_of_logit(*m) ** -0.5 / 2,
        "which is 50 % of the right number",
    ),
}


test_a_wrong_scale_is_named = wrong_answers_are_named({check.scale: SCALES})


def test_the_scale_is_one_over_the_standard_deviation():
    assert check.scale(lambda *moments: variance_of_logit(*moments) ** -0.5).startswith("[ok]")


LOGITS = [
    (24.0, "here nothing is divided"),
    (3.0, "divided by D"),
    (0.375, "do not divide"),
    (128.0, "multiply by 1.5 as well"),
    (96.0, "multiply by 2 as well"),
    (64.0, "the gains are missing"),
    (8.0, "both gains, and the second root"),
    (16.0, "the gain 1.5, and the second root"),
    (12.0, "the gain 2, and the second root"),
    (1.5, "the key's gain alone"),
    (2.0, "the query's gain alone"),
    (224.0, "not added"),
    (576.0, "not squared"),
    (288.0, "you took 1.5 twice"),
    (256.0, "you took 2 and no 1.5"),
    (12288.0, "not its square"),
    (1536.0, "D counts once"),
    (384.0, "twice too large"),
    (-192.0, "the positive number"),
    (200.0, "off by up to 8, which is 4.2 % of the right number"),
    ("large", "expected a number"),
]


@pytest.mark.parametrize("value, message", LOGITS)
def test_a_wrong_bound_is_named(value, message):
    verdict = check.largest_logit(value)
    assert verdict.startswith("[x]") and message in verdict


def test_a_bound_may_be_a_tensor():
    assert check.largest_logit(torch.tensor(192)).startswith("[ok]")


def roots(largest, tau):
    return (tau / largest.clamp(min=tau)).sqrt()[:, None, None]


def head_by_head(query, key, largest, tau):
    """Written as in the training of Kimi K2: a condition for each head."""
    query, key = query.clone(), key.clone()
    for head in range(len(largest)):
        if largest[head] > tau:
            query[head] *= (tau / largest[head]) ** 0.5
            key[head] *= (tau / largest[head]) ** 0.5
    return query, key


def both(factor):
    """The same factor for both, made of largest and tau."""
    return lambda q, k, m, tau: (factor(m, tau) * q, factor(m, tau) * k)


def on_heads(values):
    return values[:, None, None]


CLIPS = {
    "nothing": (lambda q, k, m, tau: (q, k), "nothing is clipped"),
    "no root": (both(lambda m, tau: on_heads((tau / m).clamp(max=1))), "shrink the logit too much"),
    "query alone": (
        lambda q, k, m, tau: (on_heads((tau / m).clamp(max=1)) * q, k),
        "only the query shrinks",
    ),
    "key alone": (
        lambda q, k, m, tau: (q, on_heads((tau / m).clamp(max=1)) * k),
        "only the key shrinks",
    ),
    "root of query alone": (lambda q, k, m, tau: (roots(m, tau) * q, k), "but the key does not"),
    "root of key alone": (lambda q, k, m, tau: (q, roots(m, tau) * k), "but the query does not"),
    "all heads": (both(lambda m, tau: on_heads((tau / m).sqrt())), "keeps its matrices; yours"),
    "all heads, no root": (both(lambda m, tau: on_heads(tau / m)), "and the root is missing"),
    "max for min": (
        both(lambda m, tau: on_heads((tau / m).clamp(min=1).sqrt())),
        "the other way round",
    ),
    "upside down": (both(lambda m, tau: on_heads((m / tau).clamp(min=1).sqrt())), "must shrink"),
    "one for all heads": (both(lambda m, tau: (tau / m.max()) ** 0.5), "its own factor"),
    "halved": (both(lambda m, tau: on_heads((tau / m).clamp(max=1)) / 2), "halving"),
    "two roots": (both(lambda m, tau: roots(m, tau).sqrt()), "fourth root"),
    "last axis": (both(lambda m, tau: (tau / m).clamp(max=1).sqrt()), "[:, None, None]"),
    "entries": (
        lambda q, k, m, tau: (q.clamp(-tau, tau), k.clamp(-tau, tau)),
        "[x]",
    ),
    "exchanged": (
        lambda q, k, m, tau: (roots(m, tau) * k, roots(m, tau) * q),
        "the new query comes first",
    ),
    "twice tau": (lambda q, k, m, tau: head_by_head(q, k, m, 2 * tau), "off by"),
    "NaN below 0": (
        both(lambda m, tau: on_heads((tau / m).clamp(max=1).sqrt())),
        "negative m is not above tau",
    ),
    "0 below 0": (both(lambda m, tau: on_heads((tau / m).clamp(0, 1).sqrt())), "become 0"),
    "one matrix": (lambda q, k, m, tau: roots(m, tau) * q, "[x]"),
}
test_a_wrong_clip_is_named = wrong_answers_are_named({check.qk_clip: CLIPS})


def test_a_clip_may_be_written_otherwise():
    assert check.qk_clip(head_by_head).startswith("[ok]")
    clamped = both(lambda m, tau: roots(m, tau))
    assert check.qk_clip(clamped).startswith("[ok]")


def test_the_function_that_stands_in_has_no_nan_below_zero():
    query, key = draw(2, 3, 3), draw(2, 3, 3, seed=1)
    new_query, new_key = check.both_clipped(query, key, torch.tensor([-1.0, -30.0]), 10.0)
    assert torch.equal(new_query, query) and torch.equal(new_key, key)


def test_a_clip_does_not_write_into_the_weights_of_the_caller():
    def in_place(query, key, largest, tau):
        return query.mul_(roots(largest, tau)), key.mul_(roots(largest, tau))

    assert "query was changed in place" in check.qk_clip(in_place)


def test_after_the_clip_the_largest_logit_is_tau():
    """From the logits themselves: what the exercise asks for, with no formula of a factor."""
    tokens, query, key = draw(7, 5), draw(4, 5, 3, seed=1), draw(4, 5, 3, seed=2)
    largest = ((tokens @ query) @ (tokens @ key).mT).amax((1, 2))
    query, key = head_by_head(query, key, largest, 20.0)
    found = ((tokens @ query) @ (tokens @ key).mT).amax((1, 2))
    assert (largest > 20).any() and (largest < 20).any()
    assert torch.allclose(found, largest.clamp(max=20))
