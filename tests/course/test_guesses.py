"""What a lesson says to a guess: how far off it was, or what was expected in its place."""

import numpy
import pytest
import torch

from normcourse.checks.guesses import echo

THREE = [0.5, 1, torch.tensor(2.0)]
EXPECTED = "expected 3 numbers, one for each result above."


def test_no_guess_no_word(capsys):
    echo(None, THREE)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "guess", [(0.25, 1, 4), [0.25, 1, 4], torch.tensor([0.25, 1, 4]), numpy.array([0.25, 1, 4])]
)
def test_each_number_of_a_guess_is_compared(guess, capsys):
    echo(guess, THREE)
    assert capsys.readouterr().out == "you were off by 0.25, 0, 2\n"


@pytest.mark.parametrize("guess", [0.75, torch.tensor(0.75)])
def test_one_number_is_compared(guess, capsys):
    echo(guess, 0.5)
    assert capsys.readouterr().out == "you were off by 0.25\n"


def test_a_large_distance_is_written_out(capsys):
    echo(350, 100)
    assert capsys.readouterr().out == "you were off by 250\n"


@pytest.mark.parametrize(
    "guess, said",
    [
        ((0.2, 0.2), f"your guess has 2 numbers, {EXPECTED}"),
        ((0.2,) * 4, f"your guess has 4 numbers, {EXPECTED}"),
        ((), f"your guess has 0 numbers, {EXPECTED}"),
        (0.2, f"your guess is 0.2, {EXPECTED}"),
        ("low", f"your guess is 'low', {EXPECTED}"),
        ((0.2, "low", 1), "expected a list of numbers."),
        ((0.2, None, 1), "expected a list of numbers."),
    ],
)
def test_a_guess_of_another_form_gets_one_sentence(guess, said, capsys):
    echo(guess, THREE)
    out = capsys.readouterr().out
    assert said in out
    assert out.count("\n") == 1


def test_of_an_accuracy_in_percent_no_distance_is_printed(capsys):
    echo(90, 0.5, share=True)
    out = capsys.readouterr().out
    assert out == "your guess is 90, expected a number between 0 and 1: 90% is 0.9.\n"
    echo(0.75, 0.5, share=True)
    assert capsys.readouterr().out == "you were off by 0.25\n"


@pytest.mark.parametrize("guess", [(0.1, 0.2), "0.75", {}])
def test_where_one_number_was_asked(guess, capsys):
    echo(guess, 0.5)
    assert "expected a number." in capsys.readouterr().out
