"""What a lesson says to the guess of a predict cell."""

from normcourse.checks.verdict import Slip, numbers, real, two_digits


def echo(guess, found, *, share: bool = False) -> None:
    """Print how far a guess of one number, or of several, was off; None prints nothing.

    A guess of another form prints what came and what was expected; nothing is raised.

    Args:
        found: what came out: a number, or as many numbers as the guess should have.
        share: whether found is a share, such as an accuracy, and a guess of 90 means 0.9.
    """
    if guess is None:
        return
    try:
        away = _away(guess, found)
        if share:
            _is_share(guess)
    except Slip as slip:
        print(slip)
        return
    print("you were off by", ", ".join(two_digits(abs(one)) for one in away))


def _away(guess, found) -> list[float]:
    if not _several(found):
        return [real(guess, "your guess") - real(found, "what came out")]
    wanted = numbers(found, "what came out")
    expected = f"expected {len(wanted)} numbers, one for each result above"
    if isinstance(guess, str | dict | set) or not _several(guess):
        raise Slip(f"your guess is {guess!r}, {expected}.")
    given = numbers(guess, "your guess")
    if len(given) != len(wanted):
        raise Slip(f"your guess has {len(given)} numbers, {expected}.")
    return [ours - theirs for ours, theirs in zip(given, wanted, strict=True)]


def _is_share(guess) -> None:
    if not 0 <= real(guess, "your guess") <= 1:
        raise Slip(f"your guess is {guess}, expected a number between 0 and 1: 90% is 0.9.")


def _several(value) -> bool:
    """Whether value is a row of numbers, and no single one; a tensor of one number is one."""
    return getattr(value, "ndim", 1) > 0 and hasattr(value, "__len__")
