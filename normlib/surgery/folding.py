"""surgery.fold: a model with LayerNorm becomes one with RMSNorm and the same answers."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from normlib import layers
from normlib.surgery.replacement import Replacement, Report, swap
from normlib.surgery.running import check_batches
from normlib.surgery.stream import LAYER_NORMS, NORMS, Held, Source, Stream

Slot: TypeAlias = tuple[nn.Module, str]  # a parameter's owner, and its name there


@torch.no_grad()
def fold(
    model: nn.Module, inputs: Iterable[Any], *, gains: bool = False
) -> tuple[nn.Module, Report]:
    """Make RMSNorms of a model's LayerNorms in place, with the same outputs in eval mode.

    What a LayerNorm does and an RMSNorm does not is linear, so other layers can do it in advance:
    each layer that writes to the rows a norm reads (the stream) is centred, [EQ-RMS-FOLD]; the
    norm's bias goes through the weight of each layer that reads the norm, into that layer's bias.
    When it raises, the model is untouched.

    >>> model = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    >>> x = torch.randn(5, 2)
    >>> before = model(x)
    >>> model, report = surgery.fold(model, [x])
    >>> torch.testing.assert_close(model(x), before)
    >>> model[1]
    RMSNorm((4,), eps=1e-05, elementwise_affine=True)
    >>> report.replaced[0].notes
    ['centred: 0']

    Args:
        model: the outermost module, Pre-LN: each LayerNorm reads a sum of what Linear layers,
            Embeddings, torch's MultiheadAttentions and added parameters or buffers wrote.
        inputs: a few inputs of the model, as fit_to of replace. A run with each shows who writes
            and who reads; the numbers in them do not matter.
        gains: True moves the gain of each LayerNorm and RMSNorm into the layers that read it,
            too: what is left has no parameters, and can be turned together with the stream.
    Returns: the model, and the report on each norm with the layers that changed for it.
    Raises: ValueError if a norm's rows have a writer that fold does not know (a ReLU, a
        convolution, transformers' Conv1D, a norm that stands in the stream as in Post-LN), if
        somebody else would notice the change (a layer that reads the stream without a norm, code
        that uses a weight by itself), if no input reaches a norm, or if there is none; TypeError
        for inputs that are no list. The message names the layer and the fix.

    Tied weights come apart where their layers need different numbers. A head that is tied to
    the embedding is the usual case: the embedding writes to the stream and is centred, while the
    head multiplies rows that are not centred any more behind gain and bias, so it keeps the old
    numbers (with gains=True: times the gain). The report says so. From then on the two are trained
    apart, and a framework that ties them when it loads (tie_word_embeddings) has to be told.
    A Linear layer without bias gets one where a norm's bias goes into it.
    Source: Ashkboos et al. 2024 (SliceGPT), section 3.2; Jiang et al. 2023, section 3.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"fold needs an nn.Module as model, got {model!r}. Pass the whole model.")
    check_batches("fold", "inputs", inputs)
    stream = Stream(model)
    stream.watch(model, inputs)
    plan = _Plan(model, stream)
    made: dict[nn.Module, nn.Module] = {}
    records = []
    left = {}
    for norm, path in stream.paths.items():
        if type(norm) not in NORMS:
            continue
        if type(norm) not in LAYER_NORMS and not gains:
            left[path] = "is an RMSNorm already"
            continue
        notes = plan.centre_writers(norm) if type(norm) in LAYER_NORMS else []
        notes += plan.fill_readers(norm, gains)
        made[norm] = _rms_norm(norm, gains)
        records.append(Replacement([path], repr(norm), repr(made[norm]), notes))
    if not made:
        found = "; ".join(f"{path}: {why}" for path, why in left.items()) or "none"
        raise ValueError(
            f"fold found no LayerNorm of torch.nn or normlib to fold. The model's norms: {found}."
        )
    records[0].notes += plan.apply()
    return swap(model, made), Report(records, left)


class _Plan:
    """New numbers for parameters of the model; apply writes them."""

    def __init__(self, model: nn.Module, stream: Stream) -> None:
        self.stream = stream
        self.centred: dict[Slot, int] = {}  # to the axis along which a row lies
        self.new: dict[Slot, Tensor] = {}
        self.slots: dict[int, list[Slot]] = defaultdict(list)
        for module in model.modules():
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                self.slots[id(tensor)].append((module, name))

    def centre_writers(self, norm: nn.Module) -> list[str]:
        path = self.stream.paths[norm]
        if not self.stream.read[norm]:
            raise ValueError(
                f"{path}: none of the inputs reached this norm. Pass inputs to fold that use it."
            )
        names = []
        sources = sorted(self.stream.read[norm], key=self.stream.name)
        self._check_known(path, sources)
        for source in sources:
            self._check_writer(source)
            for slot, axis in _written(source):
                if slot not in self.centred:
                    self._check_alone(slot)
                    self.centred[slot] = axis
                    names.append(self.stream.name(source))
        return [f"centred: {', '.join(dict.fromkeys(names))}"] if names else []

    def _check_known(self, path: str, sources: list[Source]) -> None:
        unknown = [each for each in sources if isinstance(each, str)]
        for each in sources:
            if isinstance(each, NORMS):
                unknown.append(f"the norm {self.stream.name(each)} (Post-LN)")
        if unknown:
            raise ValueError(
                f"{path}: fold knows no weights to centre in what this norm reads: "
                f"{'; '.join(unknown)}. It expected a sum of what Linear, Embedding, "
                "MultiheadAttention or parameters wrote. Subtract the mean there in the code, and "
                "use RMSNorm."
            )

    def _check_writer(self, source: Source) -> None:
        name = self.stream.name(source)
        if isinstance(source, Held) and len(self.slots[id(getattr(*source))]) > 1:
            raise ValueError(
                f"{name}: the model's code adds this tied parameter to the stream, and fold cannot "
                "see under which of its names. Give the code a parameter of its own."
            )
        if source in self.stream.leaks:
            raise ValueError(
                f"{name}: it writes to the stream, which {self.stream.leaks[source]} reads without "
                "a LayerNorm, and would read centred rows there. Put a LayerNorm between, "
                "or fold the part of the model without it."
            )

    def fill_readers(self, norm: Any, gains: bool) -> list[str]:
        """Plan that the readers take the norm's bias, and its gain."""
        bias = getattr(norm, "bias", None)
        moves = {
            "bias": bias is not None and bool(bias.any()),
            "gain": gains and norm.weight is not None and bool((norm.weight != 1).any()),
        }
        words = " and ".join(word for word, is_moved in moves.items() if is_moved)
        if not words:
            return []
        path = self.stream.paths[norm]
        if norm in self.stream.leaks:
            raise ValueError(
                f"{path}: its {words} can only move into Linear layers and MultiheadAttention, and "
                f"{self.stream.leaks[norm]} reads it, too. Put a Linear layer behind the norm."
            )
        readers = self.stream.readers[norm]
        for reader in readers:
            if len(self.stream.heard[reader]) > 1:
                raise ValueError(
                    f"{path}: its {words} would move into {self.stream.paths[reader]}, which reads "
                    "other rows, too. Give each place a layer of its own (copy.deepcopy)."
                )
            self._fill(reader, norm, moves)
        return [f"{words} into: {', '.join(self.stream.paths[reader] for reader in readers)}"]

    def _fill(self, reader: Any, norm: Any, moves: dict[str, bool]) -> None:
        prefix = "in_proj_" if isinstance(reader, nn.MultiheadAttention) else ""
        weight = getattr(reader, prefix + "weight")
        wide = _exact(weight)
        if moves["bias"]:
            old = getattr(reader, prefix + "bias")
            moved = wide @ _exact(norm.bias)
            self.new[reader, prefix + "bias"] = moved if old is None else _exact(old) + moved
        if moves["gain"]:
            self.new[reader, prefix + "weight"] = wide * _exact(norm.weight)
        for name in (prefix + "weight", prefix + "bias"):
            if (reader, name) in self.new:
                self._check_alone((reader, name))

    def _check_alone(self, slot: Slot) -> None:
        """Raise if the model's code uses the parameter by itself, past its layer."""
        owner, name = slot
        held = self.stream.held.get(id(getattr(owner, name)))
        if held is not None and held in self.stream.leaks:
            raise ValueError(
                f"{self.stream.name(Held(owner, name))}: {self.stream.leaks[held]} uses it, not a "
                "layer, so it cannot be changed. Make that use a Linear layer of its own "
                "(for a tied head: head.weight = embed.weight); fold then takes them apart."
            )

    def apply(self) -> list[str]:
        """Write the new numbers; words on what is tied no longer."""
        for slot, axis in self.centred.items():
            if slot in self.new or getattr(*slot) is not None:
                value = self.new[slot] if slot in self.new else _exact(getattr(*slot))
                self.new[slot] = value - value.mean(axis, keepdim=True)
        untied = []
        for slots in list(self.slots.values()):
            for slot in slots:
                if slot in self.new:
                    untied += self._write(slot, slots)
        return untied

    def _write(self, slot: Slot, slots: list[Slot]) -> list[str]:
        owner, name = slot
        old = getattr(owner, name)
        value = self.new[slot]
        if old is None:
            weight = getattr(owner, name.replace("bias", "weight"))
            setattr(owner, name, nn.Parameter(value.to(weight), weight.requires_grad))
            return []
        others = [other for other in slots if other != slot and getattr(*other) is old]
        if all(other in self.new and torch.equal(self.new[other], value) for other in others):
            old.copy_(value)
            for other in others:
                del self.new[other]
            return []
        setattr(owner, name, nn.Parameter(value.to(old), old.requires_grad))
        names = ", ".join(self.stream.name(Held(*other)) for other in others)
        return [f"{self.stream.name(Held(owner, name))} is not tied to {names} any more"]


def _written(source: Source) -> list[tuple[Slot, int]]:
    """What a writer adds to the stream, and along which axis a row of it lies."""
    if isinstance(source, Held):
        return [((source.owner, source.name), -1)]
    if isinstance(source, nn.Embedding):
        return [((source, "weight"), -1)]
    layer: Any = source.out_proj if isinstance(source, nn.MultiheadAttention) else source
    return [((layer, "weight"), 0), ((layer, "bias"), 0)]


def _exact(tensor: Tensor) -> Tensor:
    return tensor.cpu().double()  # some devices have no float64


def _rms_norm(norm: Any, gains: bool) -> nn.Module:
    """An RMSNorm with the norm's own gain, or without one."""
    weight = norm.weight
    new = layers.RMSNorm(
        norm.normalized_shape,
        norm.eps,
        elementwise_affine=not gains and weight is not None,
        fused=getattr(norm, "fused", False),
    ).train(norm.training)
    if new.weight is not None:
        new.weight = weight
    return new
