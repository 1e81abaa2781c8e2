"""surgery.replace: the one entry, and the report that it returns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from normlib.surgery.fit import fit
from normlib.surgery.transplant import find, make


@dataclass
class Replacement:
    """One layer.

    The errors come from a fit: RMS of new - old over RMS of old, at the layer's output.

    >>> print(surgery.Replacement(["0"], "LayerNorm(4)", "DyT(4)", notes=["drops nothing"]))
    0: LayerNorm(4) -> DyT(4)
        drops nothing
    """

    paths: list[str]
    old: str
    new: str = ""
    notes: list[str] = field(default_factory=list)
    error_unfitted: float | None = None
    error_fitted: float | None = None

    def __str__(self) -> str:
        line = f"{', '.join(self.paths)}: {self.old} -> {self.new}"
        if self.error_unfitted is not None and self.error_fitted is not None:
            line += f"; error {self.error_unfitted:.3g}, fitted {self.error_fitted:.3g}"
        return "\n    ".join([line, *self.notes])


@dataclass
class Report:
    """What was replaced, and the norms that were left: path -> reason.

    >>> print(surgery.Report([], {"1": "RMSNorm is not in old"}))
    left 1: RMSNorm is not in old
    """

    replaced: list[Replacement]
    left: dict[str, str]

    def __str__(self) -> str:
        replaced = [str(record) for record in self.replaced]
        left = [f"left {path}: {why}" for path, why in self.left.items()]
        return "\n".join([*replaced, *left])


def replace(
    model: nn.Module,
    old: type | tuple[type, ...],
    new: Callable[..., nn.Module],
    *,
    fit_to: Iterable[Any] | None = None,
    **options: Any,
) -> tuple[nn.Module, Report]:
    """Replace every layer of class old in place; when it raises, the model is untouched.

    >>> model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    >>> model, report = surgery.replace(model, nn.LayerNorm, layers.RMSNorm)
    >>> model[1]
    RMSNorm((4,), eps=1e-05, elementwise_affine=True)
    >>> report.replaced[0].notes
    ['drops bias, which was 0']

    Args:
        model: the outermost module, so that everything that runs the layers is seen.
        old: layer classes of torch.nn, of normlib or of another library. Exactly these: a subclass
            may mean something else (other axes, a parametrization), so it is left and reported
            until it is named.
        new: a layer class, or a functools.partial of one, built for the old layer's size, axes and
            eps, and fused if the old one is and the class knows how. It takes over the very weight,
            bias and buffers, so dtype, device, requires_grad, ties and an optimizer's hold stay;
            its other parameters are frozen if all of the old ones were. Or a callable from the old
            layer to the new one, which is taken as it is: nothing is carried. Both get the old
            dtype, device and mode.
        fit_to: a few inputs of the model: tensors, tuples of arguments or mappings of keyword
            arguments. The old model reads them in eval mode; then alpha or c of each DyT, DyISRU or
            Derf, one gain (folded into weight) and the bias are those with the least squared error
            against the old layer's output.
        options: more arguments for new, such as alpha_init=0.8 or num_groups=4.
    Returns: the model (the new layer, if model itself is an old one) and the report.
    Raises: ValueError if nothing matched, nothing can be fitted, a layer reads or writes NaN or
        infinity, or a trained value, a size or the axes cannot be carried; TypeError for arguments
        of another kind. The message names the layer and the fix.

    A TransformerEncoder(Layer) whose norms were replaced leaves torch's fused inference path, which
    reads the norms' numbers and computes LayerNorm, whatever their class.
    """
    _check_model(model, new)
    found, left = find(model, old)
    made: dict[nn.Module, nn.Module] = {}
    records = []
    for layer, paths in found.items():
        fresh, notes = make(paths[0], layer, model, new, options)
        if fresh is layer:
            left |= dict.fromkeys(paths, "the callable returned it")
        else:
            made[layer] = fresh
            records.append(Replacement(paths, repr(layer), notes=notes))
    if not made:
        seen = "; ".join(f"{path}: {reason}" for path, reason in left.items()) or "none"
        raise ValueError(f"replace found no layer of {old} to replace. The model's norms: {seen}.")
    fits = {} if fit_to is None else fit(model, made, fit_to)
    for record, (layer, fresh) in zip(records, made.items(), strict=True):
        fitted = fits.get(layer)
        if fitted is not None:
            fresh.load_state_dict(fitted.layer.state_dict())
            record.error_unfitted = fitted.unfitted
            record.error_fitted = fitted.fitted
            record.notes.append(fitted.note)
        elif fit_to is not None:
            record.notes.append("not fitted: no batch reached it, or only zeros")
        record.new = repr(fresh)
    return swap(model, made), Report(records, left)


def _check_model(model: nn.Module, new: Callable[..., nn.Module]) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"replace needs an nn.Module as model, got {model!r}. Pass the outermost module."
        )
    if isinstance(new, nn.Module) or not callable(new):
        raise TypeError(
            f"replace needs a layer class or a callable as new, got {new!r}. Pass the class, "
            "layers.DyT, say, and its arguments by name."
        )


def swap(model: nn.Module, made: dict[nn.Module, nn.Module]) -> nn.Module:
    if model in made:
        return made[model]
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child in made:
                setattr(parent, name, made[child])
    fresh = set(made.values())
    for module in model.modules():
        if fresh.isdisjoint(module.modules()):
            continue
        if isinstance(module, nn.TransformerEncoderLayer):
            # "not one that the fused path knows": read nowhere else
            module.activation_relu_or_gelu = 0
        elif isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # a nested tensor is only for layers on the fused path
    return model
