"""What the harness raises beside ValueError."""


class TimingError(Exception):
    """A measurement that would mislead; the text says what came, what was expected, and the fix.

    `who` is the candidate to blame, None where it is not one alone.
    """

    def __init__(self, message: str, who: str | None = None) -> None:
        super().__init__(message)
        self.who = who
