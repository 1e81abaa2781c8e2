"""Whether the slips that a check lists differ, from each other and from the right answer."""

import itertools
from unittest import mock

import torch
from torch import Tensor

from normcourse.checks import verdict


def mixed_up(check, *answers) -> list[tuple[str, str]]:
    """Pairs of messages that one wrong answer would earn; "right" stands for the right answer.

    The answers have to be right ones, so that every comparison of the check is reached.
    """
    found = []
    compare = verdict._compare

    def recorded(given, columns):
        table = {"right": given.wants} | {
            message: [
                want if wrong is verdict.ANY else wrong
                for wrong, want in zip(wrongs, given.wants, strict=True)
            ]
            for message, wrongs in given.slips.items()
        }
        found.extend(_pairs(table, given.wants, given.rtol, given.atol))
        compare(given, columns)

    with mock.patch.object(verdict, "_compare", recorded):
        line = check(*answers)
    assert line.startswith("[ok]"), line
    return found


def _pairs(table, wants, rtol, atol):
    for (one, values), (other, rivals) in itertools.combinations(table.items(), 2):
        places = zip(values, rivals, wants, strict=True)
        if all(_alike(value, rival, want, rtol, atol) for value, rival, want in places):
            yield one, other


def _alike(value, rival, want, rtol, atol) -> bool:
    """Whether an answer of this value would be taken for the rival slip's."""
    if isinstance(want, Tensor):
        value = torch.as_tensor(value, dtype=want.dtype)
    return verdict._fits(value, rival, want, rtol, atol)
