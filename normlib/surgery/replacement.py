"""surgery.replace: the one entry, and the report that it returns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import nn

from normlib.surgery.fit import fit
from normlib.surgery.transplant import find, make


@dataclass
class Replacement:
    """One layer. The errors come from a fit: RMS of new - old over RMS of old, at the layer's output."""

    paths: list[str]
    old: str
    new: str = ""
    notes: list[str] = field(default_factory=list)
    error_unfitted: float | None = None
    error_fitted: float | None = None

    def __str__(self) -> str:
        errors = (self.error_unfitted, self.error_fitted)
        error = "" if None in errors else "; error {:.3g}, fitted {:.3g}".format(*errors)
        return "\n    ".join([f"{', '.join(self.paths)}: {self.old} -> {self.new}{error}", *self.notes])


@dataclass
class Report:
    """What was replaced, and the norms that were left: path -> reason."""

    replaced: list[Replacement]
    left: dict[str, str]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.replaced), *(f"left {at}: {why}" for at, why in self.left.items())])


def replace(
    model: nn.Module,
    old: type | tuple[type, ...],
    new: Callable[..., nn.Module],
    *,
    fit_to: Iterable | None = None,
    **options,
) -> tuple[nn.Module, Report]:
    """Replace every layer of class old by a new one, in place; when it raises, the model is untouched.

    Args:
        model: the outermost module, so that everything that runs the layers is seen.
        old: layer classes of torch.nn, of normlib or of another library. Exactly these: a subclass may mean
            something else (other axes, a parametrization), so it is left and reported until it is named.
        new: a layer class, built for the old layer's size, axes and eps. It takes over the very weight, bias
            and buffers, so dtype, device, requires_grad, ties and an optimizer's hold stay; its other
            parameters are frozen if all of the old ones were. Or a callable from the old layer to the new
            one, which is taken as it is: nothing is carried. Both get the old dtype, device and mode.
        fit_to: a few inputs of the model: tensors, tuples of arguments or mappings of keyword arguments. The
            old model reads them in eval mode; then alpha or c of each DyT or DyISRU, one gain (folded into
            weight) and the bias are those with the least squared error against the old layer's output.
        options: more arguments for new, such as alpha_init=0.8 or num_groups=4.
    Returns: the model (the new layer, if model itself is an old one) and the report.
    Raises: ValueError if nothing matched, nothing can be fitted, or a trained value, a size or the axes
        cannot be carried; TypeError for arguments of another kind. The message names the layer and the fix.

    A TransformerEncoder(Layer) whose norms were replaced leaves torch's fused inference path, which reads the
    norms' numbers and computes LayerNorm, whatever their class.
    """
    found, left = find(model, old if isinstance(old, tuple) else (old,))
    made, records = {}, []
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
        record.new = repr(fresh)
        if layer in fits:
            _, record.error_unfitted, record.error_fitted, note = fits[layer]
            record.notes.append(note)
        elif fit_to is not None:
            record.notes.append("not fitted: no batch reached it, or only zeros")
    return _swap(model, made), Report(records, left)


def _swap(model: nn.Module, made: dict[nn.Module, nn.Module]) -> nn.Module:
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
            module.activation_relu_or_gelu = 0  # "not one that the fused path knows": read nowhere else
        elif isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # a nested tensor is only for layers on the fused path
    return model
