"""The curves of DyT and DyISRU with their derivatives, in the accumulation dtype and without cancellation."""

import triton
import triton.language as tl


@triton.jit
def curve(x, parameter, scale, CURVE: tl.constexpr):
    """Value at x, and its derivatives in x and in the parameter; parameter and scale are scalars."""
    if CURVE == "tanh":
        bent, slope = tanh(x * (parameter / scale))
        return scale * bent, parameter * slope, x * slope
    else:
        tl.static_assert(CURVE == "isru", "curve must be tanh or isru")
        inverse = tl.rsqrt(parameter)
        z = x * inverse
        # Beyond 2^40 the value is 1 in every dtype and the slope nothing, but z^2 would overflow. NaN stays.
        far = 1099511627776.0
        z = tl.where(z > far, far, tl.where(z < -far, -far, z))
        shrink = tl.rsqrt(1 + z * z)
        slope = scale * inverse * (shrink * shrink * shrink)
        return scale * z * shrink, slope, -0.5 * slope * z * inverse


@triton.jit
def tanh(u):
    """tanh and its derivative.  With a = |u| and p = exp(-2a), tanh(a) = 1 - 2p / (1 + p).

    Near 0 the difference would cancel. There Lambert's fraction a / (1 + a^2 / (3 + a^2 / (5 + ...))) gives
    a - tanh(a) as a quotient again. Cut off after n denominators its relative error is below
    a^2n / (1 3^2 5^2 ... (2n - 1)^2 (2n + 1)): at a = 3/4, 6e-9 for n = 5 and 3e-19 for n = 9.
    """
    a = tl.abs(u)
    near = a < 0.75
    small = tl.minimum(a, 0.75)  # no overflow in what is not used
    decay = tl.exp(-2 * a)
    correction, whole = _lambert(small * small)
    rest = tl.where(near, small * correction, 2 * decay) / tl.where(near, whole, 1 + decay)
    value = tl.where(near, a, 1.0) - rest
    slope = tl.where(near, 1 - value, rest) * (1 + value)  # 1 - tanh^2, far from 0 without its cancellation
    return tl.where(u < 0, -value, value), slope


@triton.jit
def _lambert(s):
    """a - tanh(a) = a * first / second, s = a^2."""
    if s.dtype == tl.float64:
        first, second = tl.zeros_like(s), tl.zeros_like(s) + 1
        last_first, last_second = second, second
        for n in tl.static_range(2, 10):
            first, last_first = (2 * n - 1) * first + s * last_first, first
            second, last_second = (2 * n - 1) * second + s * last_second, second
        return first, second
    else:
        return s * (315 + 14 * s), 945 + s * (420 + 15 * s)
