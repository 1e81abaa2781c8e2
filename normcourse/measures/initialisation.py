"""Variances of random weights: what keeps the signal, what keeps the gradient, and the compromise."""


def layer_gains(fan_in: int, fan_out: int, variance: float) -> tuple[float, float]:
    """(forward, backward): what a linear layer multiplies mean squares by.  [EQ-INIT]

    forward: of the signal, fan_in variance; backward: of the gradient, fan_out variance.
    Raises: ValueError (a fan below 1, a negative variance).
    Source: Glorot & Bengio 2010, section 4.2.1, with mean squares in place of variances.
    """
    _check(fan_in, fan_out)
    if variance < 0:
        raise ValueError(f"layer_gains needs a variance of at least 0, got {variance}. Pass std squared.")
    return fan_in * variance, fan_out * variance


def xavier_variance(fan_in: int, fan_out: int) -> float:
    """2 / (fan_in + fan_out), the harmonic mean of 1 / fan_in and 1 / fan_out.  [EQ-XAVIER]

    Raises: ValueError (a fan below 1).
    Source: Glorot & Bengio 2010, section 4.2.1, eq. (12).
    """
    _check(fan_in, fan_out)
    return 2 / (fan_in + fan_out)


def he_variance(fan_in: int) -> float:
    """2 / fan_in: keeps the mean square from one ReLU layer to the next.  [EQ-HE]

    Raises: ValueError (a fan below 1).
    Source: He et al. 2015, section 2.2, eq. (10).
    """
    _check(fan_in)
    return 2 / fan_in


def _check(*fans: int) -> None:
    if min(fans) < 1:
        raise ValueError(f"A layer has at least one input and one output, got {min(fans)}. Pass its fans.")
