"""DyT's and DyISRU's curves and slopes, in the accumulation dtype and without cancellation."""

import triton
import triton.language as tl


@triton.jit
def value_and_slopes(x, parameter, scale, KIND: tl.constexpr):
    """Value at x, and its derivatives in x and in the parameter.

    The parameter and the scale are scalars.
    """
    if KIND == "tanh":
        # t = tanh(alpha x / scale)
        # value = scale t,   by x = alpha (1 - t^2),   by alpha = x (1 - t^2)
        t, slope = tanh(x * (parameter / scale))
        return scale * t, parameter * slope, x * slope
    else:
        tl.static_assert(KIND == "isru", "kind must be tanh or isru")
        inverse = tl.rsqrt(parameter)

        # z = x / sqrt(c). Beyond 2^40 the value is 1 in every dtype and the slope nothing, but z^2
        # would overflow. NaN stays.
        far = 1099511627776.0
        z = x * inverse
        z = tl.where(z > far, far, tl.where(z < -far, -far, z))

        # value = scale z / sqrt(1 + z^2)
        shrink = tl.rsqrt(1 + z * z)
        value = scale * z * shrink

        # by x = scale / sqrt(c) / (1 + z^2)^(3/2),   by c = -(by x) z / (2 sqrt(c))
        by_x = scale * inverse * (shrink * shrink * shrink)
        by_c = -0.5 * by_x * z * inverse
        return value, by_x, by_c


@triton.jit
def tanh(u):
    """tanh and its derivative.  With a = |u| and p = exp(-2a), tanh(a) = 1 - 2p / (1 + p).

    Near 0 the difference would cancel. There Lambert's fraction
    a / (1 + a^2 / (3 + a^2 / (5 + ...))) gives a - tanh(a) as a quotient again. Cut off after n
    denominators its relative error is below a^2n / (1 3^2 5^2 ... (2n - 1)^2 (2n + 1)): at a = 3/4,
    6e-9 for n = 5 and 3e-19 for n = 9.
    """
    a = tl.abs(u)
    near = a < 0.75
    small = tl.minimum(a, 0.75)  # no overflow in what is not used

    # rest = a - tanh(a) near 0, else 1 - tanh(a) = 2p / (1 + p)
    p = tl.exp(-2 * a)
    correction, whole = _lambert(small * small)
    above = tl.where(near, small * correction, 2 * p)
    below = tl.where(near, whole, 1 + p)
    rest = above / below

    # tanh(a) = a - rest, or 1 - rest
    value = tl.where(near, a, 1.0) - rest

    # 1 - tanh^2 = (1 - tanh) (1 + tanh), far from 0 without its cancellation
    slope = tl.where(near, 1 - value, rest) * (1 + value)
    return tl.where(u < 0, -value, value), slope


@triton.jit
def _lambert(s):
    """a - tanh(a) = a * first / second, s = a^2."""
    if s.dtype == tl.float64:
        first = tl.zeros_like(s)
        second = tl.zeros_like(s) + 1
        last_first = second
        last_second = second
        for n in tl.static_range(2, 10):
            next_first = (2 * n - 1) * first + s * last_first
            next_second = (2 * n - 1) * second + s * last_second
            last_first = first
            last_second = second
            first = next_first
            second = next_second
        return first, second
    else:
        return s * (315 + 14 * s), 945 + s * (420 + 15 * s)
