"""The record of lesson 07a on bits and batches: whole, and what its "How sure is this?" says."""

import json
from dataclasses import fields, replace

import pytest
import torch

from normcourse import draw
from tools import rows_alone
from tools.rows_alone import BASE, Case, cases, count, differing

RECORD = json.loads(rows_alone.RECORD.read_text("utf-8"))
TOTAL = RECORD["rows"] * RECORD["draws"]
PLACE = ("instructions", "mkl")


def rows(**wanted):
    found = [row for row in RECORD["counts"] if wanted.items() <= row.items()]
    assert found, wanted
    return found


def case_of(row):
    return Case(**{field.name: row[field.name] for field in fields(Case)})


def places():
    """Instructions and MKL's way, those of the first rows first."""
    return list(dict.fromkeys(tuple(row[name] for name in PLACE) for row in RECORD["counts"]))


def test_the_record_holds_each_case_once_and_names_where():
    here, *elsewhere = places()
    planned = [(case, here) for case in cases()]
    planned += [(replace(case, threads=2), place) for place in elsewhere for case in BASE]
    found = [(case_of(row), tuple(row[name] for name in PLACE)) for row in RECORD["counts"]]
    assert found == planned
    assert len({place[0] for place in places()}) == 3 and len({place[1] for place in places()}) == 2
    assert RECORD["provenance"]["command"] == rows_alone.COMMAND
    assert RECORD["provenance"]["machine"]
    assert (RECORD["rows"], RECORD["draws"]) == (rows_alone.ROWS, rows_alone.DRAWS)
    assert all(0 <= row["differ"] <= TOTAL for row in RECORD["counts"])


@pytest.mark.parametrize("function", ["F.layer_norm", "fused.layer_norm", "fused.rms_norm"])
def test_the_controls_hold_in_every_variation(function):
    assert not any(row["differ"] for row in rows(function=function))


def test_what_differs_does_so_in_each_variation_but_bfloat16():
    """The last line of the table."""
    alone = [row for row in rows(beside=0) if row["dtype"] != "bfloat16"]
    for row in alone:
        if row["function"] == "F.linear":
            assert row["differ"] == TOTAL
        if (row["function"], row["dim"]) == ("fused.dyt", 65_536):
            assert row["differ"] == TOTAL
        if row["function"] == "F.rms_norm":
            is_shared = row["dim"] == 65_536 and row["threads"] > 1
            assert (row["differ"] > TOTAL / 10) == is_shared
            assert (row["differ"] > 0) == is_shared
    hidden = [row["differ"] for row in rows(dtype="bfloat16")]
    assert 0 < max(hidden) < TOTAL / 20


def test_company_that_is_enough():
    for beside, wanted in ((1, TOTAL), (3, 0)):
        (row,) = rows(function="F.linear", dim=1024, beside=beside)
        assert row["differ"] == wanted
        (row,) = rows(function="F.rms_norm", dim=65_536, beside=beside)
        assert row["differ"] == 0


# The counting


def by_the_number_of_rows(x):
    """Six rows and more are added up from the other end."""
    total = torch.zeros(len(x), dtype=x.dtype)
    for number in (x.flip(1) if len(x) > 5 else x).unbind(1):
        total = total + number
    return total


def test_a_planted_dependence_is_counted_alone_and_with_others():
    x = draw(16, 100).float()
    alone = differing(by_the_number_of_rows, x, 0)
    assert 8 < len(alone) <= 16
    assert differing(by_the_number_of_rows, x, 4) == alone
    assert differing(by_the_number_of_rows, x, 5) == []
    assert differing(torch.square, x, 0) == differing(torch.square, x, 3) == []


def test_each_function_of_the_record_can_be_counted():
    before = torch.get_num_threads()
    try:
        for case in {replace(case, dim=8) for case in BASE}:
            found = count(case, draws=1)
            assert 0 <= found <= 16
            assert found == 0 or case.function == "F.linear"
    finally:
        torch.set_num_threads(before)
