"""The old layers of a model, and for each the new one, with what was trained in the old one."""

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

# along dimension 1?
SIZES = {"normalized_shape": False, "num_features": True, "num_channels": True}
SAME = ("num_groups", "momentum", "track_running_stats")


def find(
    model: nn.Module, old: type | tuple[type, ...]
) -> tuple[dict[nn.Module, list[str]], dict[str, str]]:
    """The layers of exactly these classes with their paths, and path -> reason for other norms."""
    classes = old if isinstance(old, tuple) else (old,)
    if not all(isinstance(each, type) for each in classes):
        raise TypeError(
            f"replace needs a class or a tuple of classes as old, got {old!r}. "
            "Pass nn.LayerNorm, say."
        )
    found: dict[nn.Module, list[str]] = {}
    left: dict[str, str] = {}
    seen: set[nn.Module] = set()

    def visit(module: nn.Module, path: str) -> None:
        at = path or "(the model)"
        if type(module) in classes:
            found.setdefault(module, []).append(at)
        elif module not in seen:
            seen.add(module)
            if _size(module):
                known = isinstance(module, classes)
                why = (
                    "is a subclass: name it in old if it has the same axes"
                    if known
                    else "is not in old"
                )
                left[at] = f"{type(module).__name__} {why}"
            for name, child in module._modules.items():
                if child is not None:
                    visit(child, f"{path}.{name}" if path else name)

    visit(model, "")
    return found, left


def make(
    path: str,
    old: nn.Module,
    model: nn.Module,
    new: Callable[..., nn.Module],
    options: dict[str, Any],
) -> tuple[nn.Module, list[str]]:
    """The new layer for the old one, and notes on what it lacks.

    Nothing of the old layer is changed.
    """
    new, options = _unwrapped(new, options)
    is_class = isinstance(new, type)
    layer = _build(path, old, new, options) if isinstance(new, type) else new(old, **options)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"{path}: replace needs an nn.Module from {new!r}, got {layer!r}.")
    tensors = [*old.parameters(), *old.buffers(), *model.parameters(), torch.empty(0)]
    like = next(tensor for tensor in tensors if tensor.is_floating_point())
    layer.to(like.device, like.dtype).train(old.training)
    notes = _carry(path, old, layer) if is_class else []
    if _is_fused(old) and not _is_fused(layer):
        notes.append("is not fused, as the old layer was")
    hooks = (
        old._forward_hooks,
        old._forward_pre_hooks,
        old._backward_hooks,
        old._backward_pre_hooks,
    )
    if any(hooks) or "forward" in vars(old) or parametrize.is_parametrized(old):
        notes.append("loses the old layer's hooks, patched forward or parametrizations")
    return layer, notes


def _unwrapped(
    new: Callable[..., nn.Module], options: dict[str, Any]
) -> tuple[Callable[..., nn.Module], dict[str, Any]]:
    """The class of a functools.partial, and its arguments by name under the options, which win."""
    if not isinstance(new, partial) or not isinstance(new.func, type):
        return new, options
    bound = inspect.signature(new.func).bind_partial(*new.args, **new.keywords)
    return new.func, bound.arguments | options


def _is_fused(layer: nn.Module) -> bool:
    return getattr(layer, "fused", False) is True


def _size(layer: nn.Module) -> tuple[int, ...] | None:
    """The shape of a norm's weight; None for a layer that is no norm.

    num_channels alone says nothing.
    """
    if not any(hasattr(layer, name) for name in ("eps", "variance_epsilon", "normalized_shape")):
        return None
    for name in SIZES:
        if hasattr(layer, name):
            size = getattr(layer, name)
            return (size,) if isinstance(size, int) else tuple(size)
    weight = getattr(layer, "weight", None)
    return tuple(weight.shape) if isinstance(weight, Tensor) else None


def _build(path: str, old: nn.Module, new: type, options: dict[str, Any]) -> nn.Module:
    """new(...), its arguments by name from what the old layer knows; options win."""
    size = _size(old)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(new).parameters
    takes = {name: each for name, each in signature.items() if each.kind in named}
    if size is None:
        raise ValueError(
            f"{path}: {old!r} has no size and eps, as a norm has. Pass a callable as new."
        )
    known = _arguments(old, size)
    # the width, under another library's name
    if len(size) == 1 and not SIZES.keys() & takes.keys():
        known |= dict.fromkeys([*takes][:1], size[0])
    arguments = {name: value for name, value in known.items() if name in takes} | options
    needs = {name for name, each in takes.items() if each.default is each.empty} - arguments.keys()
    if needs:
        unknown = ", ".join(sorted(needs))
        raise ValueError(
            f"{path}: {new.__name__} needs {unknown}, which {old!r} lacks. Pass it to replace."
        )
    by_channel = any(SIZES[name] for name in SIZES.keys() & takes.keys())
    if "channels_first" not in takes and by_channel != known["channels_first"]:
        raise ValueError(
            f"{path}: of {old!r} and {new.__name__}, one has its weight along dimension 1, "
            "the other along the last dimensions. "
            "Pass a callable as new if these are the same in your inputs."
        )
    return new(**arguments)


def _arguments(old: nn.Module, size: tuple[int, ...]) -> dict[str, Any]:
    """What the old layer knows, under the names that constructors have for it."""
    has_weight = getattr(old, "weight", None) is not None
    eps = getattr(old, "eps", getattr(old, "variance_epsilon", None))
    by_channel = any(hasattr(old, name) for name in SIZES if SIZES[name])
    known = {
        "normalized_shape": size,
        "channels_first": getattr(old, "channels_first", by_channel),
        "bias": getattr(old, "bias", None) is not None,
        "elementwise_affine": has_weight,
        "affine": has_weight,
    }
    if len(size) == 1:
        known |= {"num_features": size[0], "num_channels": size[0]}
    if eps is not None:
        known |= {"eps": eps, "variance_epsilon": eps}
    if _is_fused(old):
        known["fused"] = True
    return known | {name: getattr(old, name) for name in SAME if hasattr(old, name)}


def _carry(path: str, old: nn.Module, layer: nn.Module) -> list[str]:
    """Hand the old layer's own tensors to the new one, or raise if a trained one would be lost."""
    _check_gain(path, old)
    about_weight = _carry_affine(path, old, layer, "weight", untrained=1.0)
    about_bias = _carry_affine(path, old, layer, "bias", untrained=0.0)
    notes = [note for note in (about_weight, about_bias) if note]
    carried = {"weight", "bias"}
    for name, buffer in old.named_buffers(recurse=False):
        place = layer._buffers.get(name)  # None too where the new layer does not track
        if place is not None and place.shape == buffer.shape:
            layer._buffers[name] = buffer
            carried.add(name)
    tensors = (*old.named_parameters(), *old.named_buffers())
    dropped = [name for name, _ in tensors if name not in carried]
    if dropped:
        notes.append(f"drops {', '.join(dropped)}")
    frozen = [not parameter.requires_grad for parameter in old.parameters()]
    if frozen and all(frozen):
        layer.requires_grad_(False)
    return notes


def _carry_affine(
    path: str, old: nn.Module, layer: nn.Module, name: str, untrained: float
) -> str | None:
    value = getattr(old, name, None)
    place = getattr(layer, name, None)
    if value is None:
        return None if place is None else f"{name} starts at {untrained:g}: the old layer had none"
    if place is not None and place.shape == value.shape:
        is_own = isinstance(value, nn.Parameter)  # a parametrized one is computed anew at each look
        setattr(layer, name, value if is_own else nn.Parameter(value.detach().clone()))
        return None
    if place is not None or value.is_meta or (value != untrained).any():
        raise ValueError(
            f"{path}: the {name} {tuple(value.shape)} of {old!r} has no place in {layer!r}. Choose "
            f"a layer with a {name} of that shape, fold it into the next layer first, "
            "or pass a callable as new."
        )
    return f"drops {name}, which was {untrained:g}"


@torch.no_grad()
def _check_gain(path: str, old: nn.Module) -> None:
    """Raise unless a norm of another library has weight for its gain: Gemma's has 1 + weight."""
    weight = getattr(old, "weight", None)
    bias = getattr(old, "bias", None)
    is_known = type(old).__module__.split(".")[0] in ("torch", "normlib")
    if is_known or weight is None or weight.is_meta:
        return
    ramp = torch.linspace(-1, 1, weight.numel(), dtype=torch.float64).view(1, *weight.shape)
    rms = ramp.square().mean().sqrt()
    x = (ramp / rms).to(weight)  # mean 0 and RMS 1: LayerNorm and RMSNorm keep it
    want = weight * x if bias is None else weight * x + bias
    try:
        got = copy.deepcopy(old).eval()(100 * x)  # 100: any usual eps is small beside it
        gap = (got - want).norm()
    except Exception as error:
        raise ValueError(
            f"{path}: {old!r} failed on rows (1, D). Pass a callable as new."
        ) from error
    if not gap <= 0.1 * want.norm():  # rounding of half types is far below, 1 + weight far above
        raise ValueError(
            f"{path}: {old!r} is not weight * normalized + bias. Pass a callable as new."
        )
