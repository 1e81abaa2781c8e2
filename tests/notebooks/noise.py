"""Other CPUs on this one: the results of torch and of math move by a few units in the last place.

Another CPU, BLAS or C library adds in another order, takes exp from another polynomial, fuses
a*b + c or not, finds eigenvalues in another order, sorts equal values otherwise. `start(seed)`
makes this process so. What is the same everywhere stays: IEEE's + - * /, exact sums, integers,
exp(0). The noise is a function of a result's own size and the seed: the same operation on the same
numbers gives the same answer twice. Not moved: numpy, half types, and a power of Python's own
floats. jitter.py runs notebooks in it.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ULPS = 2  # how far a result moves, in units in its last place
INTEGER = {torch.float64: torch.int64, torch.float32: torch.int32}
# A result whose last bits are all 0 is taken for exact: by chance one in a million is so, of
# float32 one in 256.
LAST_BITS = {torch.float64: (1 << 20) - 1, torch.float32: (1 << 8) - 1}
ALL_BUT_SIGN = {torch.float64: 2**63 - 1, torch.float32: 2**31 - 1}
# Below, near the denormal numbers, nothing moves.
SMALLEST = {torch.float64: 11 << 52, torch.float32: 11 << 23}
# Odd, with bits that show no pattern.
MIX = {torch.int64: 0x1E3779B97F4A7C15, torch.int32: 0x1E3779B1}
HALF_WIDTH = {torch.int64: 31, torch.int32: 15}
TO_16_BITS = {torch.int64: 48, torch.int32: 16}
# MKL draws these where it is, and other machines draw others; dropout draws with the first.
OTHER_STREAMS = {"bernoulli_", "exponential_"}


class Noise(TorchDispatchMode):
    def __init__(self, seed: int, ulps: int = ULPS):
        super().__init__()
        self.seed = seed
        self.ulps = ulps

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").partition(".")[0]
        if name in OTHER_STREAMS:
            result = func(*args, **kwargs)
            return result.copy_(result.flip(0))
        model = MODELS.get(name.rstrip("_"))
        if model is None or "out" in kwargs or not all(map(is_plain, args)):
            return func(*args, **kwargs)
        if not name.endswith("_"):
            return model(self, func, args, kwargs)
        result = func(*args, **kwargs)  # in place: args have changed, only the result can be moved
        if model is not add or adds_a_product(args, kwargs):
            result.copy_(self.move(result))
        return result

    def mixed(self, size):
        """For each whole number another one, without a pattern: a function of it and the seed."""
        odd = MIX[size.dtype]
        mixed = (size ^ (self.seed + 1)) * odd
        return (mixed ^ (mixed >> HALF_WIDTH[size.dtype])) * odd

    def unit(self, values):
        """For each value a number in [-1, 1): a function of its magnitude and the seed."""
        every = ALL_BUT_SIGN[values.dtype]
        size = values.contiguous().view(INTEGER[values.dtype]) & every
        return self.mixed(size).to(values.dtype) / every

    def move(self, values, limit=None):
        """Each value by up to `ulps` units in its last place; exact ones stay."""
        if isinstance(values, (tuple, list)):
            return type(values)(self.move(value) for value in values)
        if isinstance(values, torch.Tensor) and values.dtype == torch.complex128:
            return torch.view_as_complex(self.move(torch.view_as_real(values).contiguous()))
        if not is_measured(values):
            return values
        bits = values.contiguous().view(INTEGER[values.dtype])
        size = bits & ALL_BUT_SIGN[values.dtype]
        chance = self.mixed(size) >> TO_16_BITS[bits.dtype]
        steps = (chance * (2 * self.ulps + 1) + (1 << 15)) >> 16  # whole, from -ulps to ulps
        moving = (bits & LAST_BITS[values.dtype] != 0) & (size > SMALLEST[values.dtype])
        moved = (bits + steps * moving).view(values.dtype)
        return moved if limit is None else moved.clamp(-limit, limit)

    def spread(self, values, size):
        """Each value by up to `ulps` roundings of numbers of this size: what cancelled counts."""
        if not is_measured(values):
            return values
        step = self.ulps * torch.finfo(values.dtype).eps * size
        moved = values + self.unit(values) * step * torch.where(values < 0, -1.0, 1.0)
        return torch.where(moved.isfinite(), moved, values).to(values.dtype)

    def disturbed(self, args):
        """The first matrix with a backward stable algorithm's error; exact little ones stay."""
        matrix = args[0]
        if not is_measured(matrix) or is_short(matrix):
            return args
        places = torch.arange(1, matrix.numel() + 1, dtype=matrix.dtype).reshape(matrix.shape)
        error = self.unit(matrix.abs() + places.sqrt()) * self.ulps * torch.finfo(matrix.dtype).eps
        return (matrix + error * matrix.abs().max(), *args[1:])

    def generator(self):
        return torch.Generator().manual_seed(self.seed)


# What a tensor is


def is_plain(value) -> bool:
    """Not a tensor, or one with numbers on this CPU: no fake, functional or batched one."""
    if not isinstance(value, torch.Tensor):
        return True
    return value.device.type == "cpu" and type(value) in {torch.Tensor, torch.nn.Parameter}


def is_measured(value) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in INTEGER and value.numel() > 0


def is_long(values):
    """Where the last bits are in use: the value was rounded, or its sum with others is."""
    return values.contiguous().view(INTEGER[values.dtype]) & LAST_BITS[values.dtype] != 0


def is_short(values) -> bool:
    """Say whether all values are little exact numbers.

    Their sums and products are the same in every order.
    """
    few = values.reshape(-1)[:64]
    return not is_long(few).any() and not is_long(values).any()


def magnitudes(args):
    return [value.abs() if isinstance(value, torch.Tensor) else value for value in args]


# How operations differ: each model runs func and returns what another machine might


def rounded(noise, func, args, kwargs):
    return noise.move(func(*args, **kwargs))


def at_most_one(noise, func, args, kwargs):
    return noise.move(func(*args, **kwargs), limit=1.0)


def power(noise, func, args, kwargs):
    result = func(*args, **kwargs)
    by_products_and_roots = (
        args[1] in {0, 1, 2, 3, -1, -2} if isinstance(args[1], (int, float)) else False
    )
    return result if by_products_and_roots else noise.move(result)


def adds_a_product(args, kwargs) -> bool:
    return (args[2] if len(args) > 2 else kwargs.get("alpha", 1)) != 1


def add(noise, func, args, kwargs):
    """x + alpha y: with one rounding or with two."""
    result = func(*args, **kwargs)
    return noise.move(result) if adds_a_product(args, kwargs) else result


def grid(noise, func, args, kwargs):
    """linspace and arange: the ends are exact, a point between them is found from either end."""
    result = func(*args, **kwargs)
    if not is_measured(result) or result.numel() < 3 or is_short(result):
        return result
    inner = result[1:-1]
    moved = noise.spread(inner, result.abs().max() / noise.ulps)
    return torch.cat([result[:1], torch.where(is_long(inner), moved, inner), result[-1:]])


def total(noise, func, args, kwargs):
    """A sum or a mean: its error is as large as the terms that are not exact make it."""
    result, terms = func(*args, **kwargs), args[0]
    if not is_measured(terms) or result.dtype != terms.dtype or is_short(terms):
        return result
    size = func(terms.abs() * is_long(terms), *args[1:], **kwargs)
    if (terms == 0).any():
        one = 1 if "sum" in func.__name__ else result.numel() / terms.numel()
        count = func((terms != 0).to(terms.dtype), *args[1:], **kwargs)
        size = size.masked_fill(count < 1.5 * one, 0.0)  # a single term is not rounded
    return noise.spread(result, size)


def variance(noise, func, args, kwargs):
    """Rounded, and not quite 0 for equal values: their mean may be rounded."""
    results, values = func(*args, **kwargs), args[0]
    if not is_measured(values) or is_short(values):
        return results
    spread, *mean = results if isinstance(results, tuple) else (results,)
    floor = noise.ulps * torch.finfo(values.dtype).eps * values.abs().max()
    constant = spread < 10 * floor
    tiny = floor * noise.unit(spread + values.abs().mean()).abs()
    if "std" not in func.__name__:
        tiny = tiny.square()
    moved = torch.where(constant, tiny, noise.move(spread))
    return (moved, noise.spread(mean[0], values.abs().mean())) if mean else moved


def product(noise, func, args, kwargs):
    """Of matrices, or a convolution: sums in any order, with an error as large as the terms."""
    results = func(*args, **kwargs)
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if not all(map(is_measured, tensors)) or all(map(is_short, tensors)):
        return results
    sizes = func(*magnitudes(args), **kwargs)
    if isinstance(
        results, tuple
    ):  # the gradients of a convolution; one that nobody asked for is None
        pairs = zip(results, sizes, strict=True)
        return tuple(
            result if result is None else noise.spread(result, size) for result, size in pairs
        )
    if len(tensors) == 2 and any((tensor == 0).any() for tensor in tensors):
        count = func(*((tensor != 0).to(tensor.dtype) for tensor in tensors), *args[2:], **kwargs)
        sizes = sizes.masked_fill(
            count < 1.5, 0.0
        )  # a single term: the product of two numbers, rounded once
    return noise.spread(results, sizes)


def solution(noise, func, args, kwargs):
    return func(*noise.disturbed(args), **kwargs)


def eigenvalues(noise, func, args, kwargs):
    """In any order; of a singular matrix perhaps none: MKL gives up on many of rank one."""
    if is_measured(args[0]) and (torch.linalg.matrix_rank(args[0]) < args[0].shape[-1]).any():
        raise torch.linalg.LinAlgError(
            "noise.py: some CPUs find no eigenvalues of a singular matrix"
        )
    result = func(*noise.disturbed(args), **kwargs)
    order = torch.randperm(args[0].shape[-1], generator=noise.generator())
    if isinstance(result, torch.Tensor):
        return result[..., order]
    return tuple(part[..., order] for part in result)


def vectors(noise, func, args, kwargs):
    """Eigenvectors of a symmetric matrix and singular vectors, with other signs."""
    result = func(*noise.disturbed(args), **kwargs)
    left, middle, right = result if len(result) == 3 else (result[1], result[0], None)
    if left.numel() == 0:
        return result
    count = middle.shape[-1]
    signs = 2 * torch.randint(0, 2, (count,), generator=noise.generator()).to(left.dtype) - 1
    left = torch.cat([left[..., :count] * signs, left[..., count:]], dim=-1)
    if right is None:
        return middle, left
    right = torch.cat([right[..., :count, :] * signs[:, None], right[..., count:, :]], dim=-2)
    return left, middle, right


def ties(noise, func, args, kwargs):
    """Equal values in the opposite order, unless the sort was asked to keep it."""
    values = args[0]
    if values.dim() == 0 or kwargs.get("stable"):
        return func(*args, **kwargs)
    place = 2 if "topk" in func.__name__ else 1
    dim = args[place] if len(args) > place else kwargs.get("dim", -1)
    found, index = func(values.flip(dim), *args[1:], **kwargs)
    return found, values.shape[dim] - 1 - index


MODELS = {
    name: model
    for model, names in {
        rounded: """
            sqrt rsqrt exp exp2 expm1 log log2 log10 log1p tan sinh cosh asin acos atan asinh
            acosh atanh atan2 erfinv gelu silu mish softplus elu log_sigmoid log_sigmoid_forward
            digamma lgamma special_erfcx special_ndtri special_log_ndtr logaddexp xlogy sinc
            logit polar tanh_backward sigmoid_backward gelu_backward silu_backward
            softplus_backward elu_backward mish_backward log_sigmoid_backward _log_softmax
            _softmax_backward_data _log_softmax_backward_data logsumexp linalg_vector_norm norm
            prod _cdist_forward native_layer_norm native_batch_norm native_group_norm
            native_layer_norm_backward native_batch_norm_backward native_group_norm_backward
            _native_batch_norm_legit _native_batch_norm_legit_no_training
            _batch_norm_with_update _fused_rms_norm _fused_rms_norm_backward
            _scaled_dot_product_flash_attention_for_cpu
            _scaled_dot_product_flash_attention_for_cpu_backward mse_loss mse_loss_backward
            l1_loss nll_loss_forward binary_cross_entropy addcmul addcdiv lerp addr randn
            randn_like normal log_normal""",
        at_most_one: "tanh sigmoid sin cos erf erfc _softmax",
        power: "pow",
        add: "add sub rsub",
        grid: "linspace arange logspace",
        total: "sum mean nansum nanmean",
        variance: "var std var_mean std_mean",
        product: "mm bmm mv dot vdot addmm addmv baddbmm addbmm convolution convolution_backward",
        solution: """
            _linalg_det _linalg_slogdet linalg_inv_ex _linalg_solve_ex linalg_solve_triangular
            linalg_cholesky_ex linalg_lstsq linalg_qr linalg_lu_factor_ex cholesky_solve
            linalg_matrix_exp""",
        eigenvalues: "linalg_eig linalg_eigvals _linalg_eigvals",
        vectors: "_linalg_eigh _linalg_svd",
        ties: "sort topk",
    }.items()
    for name in names.split()
}

LIBM = """exp expm1 log log1p log2 log10 sin cos tan sinh cosh tanh atan atan2 asinh erf erfc gamma
    lgamma pow"""


def other_libm(function, seed: int):
    """The same function of another C library: at most one unit in the last place away."""

    def moved(*args):
        value = function(*args)
        if not isinstance(value, float) or not math.isfinite(value):
            return value
        fraction, _ = math.frexp(abs(value))
        if int(fraction * 2**53) & LAST_BITS[torch.float64] == 0:
            return value
        step = hash((seed, fraction)) % 3 - 1
        return value + step * math.ulp(value)

    return moved


def start(seed: int, ulps: int = ULPS) -> None:
    """From now on and to its end this process computes as another machine might."""
    for name in LIBM.split():
        setattr(math, name, other_libm(getattr(math, name), seed))
    Noise(seed, ulps).__enter__()
