"""Which layers write the rows that a norm reads, and which layers read the norm: seen in a run.

Each tensor of the run has its sources and, in float64, a code for each of its numbers that says at
which place of a row the number was written. What only moves, adds or scales rows does the same to
the codes; so where the codes of a norm's input are 0, 1, ..., D - 1 of the writers, it reads whole
rows, sums of what the writers wrote.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from normlib import layers
from normlib.surgery.running import run

aten = torch.ops.aten
ADDS = {aten.add, aten.add_, aten.sub, aten.sub_}
SCALES = {aten.mul, aten.div}
COPIES = {aten.alias, aten.clone, aten.detach, aten._to_copy}
MOVES = {
    aten._unsafe_view, aten.cat, aten.expand, aten.index, aten.index_select, aten.mean,
    aten.permute, aten.select, aten.slice, aten.split, aten.split_with_sizes, aten.squeeze,
    aten.stack, aten.t, aten.transpose, aten.unbind, aten.unsqueeze, aten.view,
}  # fmt: skip
LAYER_NORMS = (nn.LayerNorm, layers.LayerNorm)
NORMS = (*LAYER_NORMS, nn.RMSNorm, layers.RMSNorm)
KNOWN = (nn.Linear, nn.Embedding, nn.MultiheadAttention, *NORMS)


class Held(NamedTuple):
    """A parameter or buffer as a source: x + positions."""

    owner: nn.Module
    name: str


# a layer that wrote, a norm, a tensor of the model, or words for what fold does not know
Source: TypeAlias = nn.Module | Held | str


class Rows(NamedTuple):
    """Where a tensor comes from."""

    sources: frozenset[Source]
    codes: Tensor | None  # of the tensor's shape; None where its rows are no sums of written rows


class Stream(TorchDispatchMode):
    """Watches the runs of a model.

    Attributes:
        read: norm -> the sources of the rows that it read.
        readers: norm -> the layers that read its output.
        heard: Linear or attention -> the norms that it read, None for anything else.
        leaks: source -> who else reads it, or a sum in which it is.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.paths = {module: path or "(the model)" for path, module in model.named_modules()}
        self.held = {
            id(tensor): Held(module, name)
            for module in model.modules()
            for name, tensor in (*module._parameters.items(), *module._buffers.items())
            if tensor is not None
        }
        self.read: dict[nn.Module, set[Source]] = defaultdict(set)
        self.readers: dict[nn.Module, dict[nn.Module, None]] = defaultdict(dict)
        self.heard: dict[nn.Module, set[nn.Module | None]] = defaultdict(set)
        self.leaks: dict[Source, str] = {}
        self.running: list[nn.Module] = []
        self.inside: nn.Module | None = None  # a layer that is known as a whole
        self.rows: dict[int, tuple[Tensor, Rows]] = {}  # with the tensor, so that its id stays

    def watch(self, model: nn.Module, batches: Iterable[Any]) -> None:
        handles = []
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(self._enter, with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave))
        try:
            with self:
                for output in run(model, batches):
                    for tensor in _tensors(output):
                        self._leak(self._rows(tensor), "the model's output")
                    self.rows.clear()
        finally:
            for handle in handles:
                handle.remove()

    def name(self, source: Source) -> str:
        if isinstance(source, str):
            return source
        if isinstance(source, Held):
            return ".".join(part for part in (self._path(source.owner), source.name) if part)
        return self.paths[source]

    def _path(self, module: nn.Module) -> str:
        return self.paths[module].replace("(the model)", "")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if self.inside is None:
            rows = self._after(func, args, kwargs, output)
            outputs = _tensors(output)
            if func._schema.is_mutable:
                self._forget_views(_tensors((args, kwargs))[:1] + outputs)
            for tensor, one in zip(outputs, rows, strict=True):
                self.rows[id(tensor)] = (tensor, one)
        return output

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.running.append(module)
        if self.inside is not None or not _is_known(module):
            return
        self.inside = module
        inputs = [self._rows(tensor) for tensor in _tensors((args, kwargs))]
        if isinstance(module, nn.Embedding):
            return
        if isinstance(module, nn.MultiheadAttention):
            inputs = inputs[:3]  # query, key, value; then masks
        if isinstance(module, NORMS):
            self._into_norm(module, inputs[0])
        else:
            self._into_reader(module, inputs)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.running.pop()
        if self.inside is module:
            self.inside = None
            first, *others = _tensors(output)
            self.rows[id(first)] = (first, Rows(frozenset([module]), _codes(first.shape)))
            for tensor in others:  # attention's weights
                self.rows[id(tensor)] = (tensor, self._unknown("the weights"))

    def _into_norm(self, norm: Any, rows: Rows) -> None:
        self.read[norm] |= rows.sources
        is_named = any(isinstance(source, str) for source in rows.sources)
        if not is_named and not _are_whole(rows, norm.normalized_shape):
            self.read[norm].add("numbers that are not whole rows of what was written")
        if not isinstance(norm, LAYER_NORMS):
            self._leak(rows, self.paths[norm])

    def _into_reader(self, reader: nn.Module, inputs: list[Rows]) -> None:
        sources = frozenset[Source]().union(*(rows.sources for rows in inputs))
        norm: Any = next(iter(sources))
        whole = len(sources) == 1 and isinstance(norm, NORMS)
        if whole and all(_are_whole(rows, norm.normalized_shape) for rows in inputs):
            self.readers[norm][reader] = None
            self.heard[reader].add(norm)
            return
        self.heard[reader].add(None)
        for rows in inputs:
            self._leak(rows, self.paths[reader])

    def _after(self, func: Any, args: Any, kwargs: Any, output: Any) -> list[Rows]:
        """The rows of an operation's outputs."""
        kind = func.overloadpacket
        inputs = [self._rows(tensor) for tensor in _tensors((args, kwargs)) if _is_float(tensor)]
        sources = frozenset[Source]().union(*(rows.sources for rows in inputs))
        outputs = _tensors(output)
        if inputs and kind in COPIES:
            return [inputs[0]]
        if inputs and kind in MOVES:
            if any(rows.codes is None for rows in inputs):
                return [Rows(sources, None)] * len(outputs)
            moved = _tensors(func(*self._as_codes(args), **self._as_codes(kwargs)))
            return [Rows(sources, codes) for codes in moved]
        if inputs and kind in ADDS:
            if not all(isinstance(each, Tensor) for each in args[:2]):
                sources |= {"a number, added to each place of the rows"}
            return [Rows(sources, _common([rows.codes for rows in inputs], output.shape))]
        if kind in SCALES:
            scaled = self._scaled(kind, *args[:2])
            if scaled is not None and scaled.codes is not None:
                return [scaled]
        name = f"{kind.__name__} in {self.paths[self.running[-1]]}"
        for rows in inputs:
            self._leak(rows, name)
        return [self._unknown(name)] * len(outputs)

    def _scaled(self, kind: Any, first: Any, second: Any) -> Rows | None:
        """The rows that are multiplied with one number, or divided by one."""
        if kind is aten.mul and self._is_constant(first):
            first, second = second, first
        return self._rows(first) if self._is_constant(second) else None

    def _is_constant(self, factor: Any) -> bool:
        """Whether a factor is one number that does not depend on the rows."""
        if isinstance(factor, Tensor):
            return factor.numel() == 1 and id(factor) in self.held
        return isinstance(factor, int | float)

    def _rows(self, tensor: Tensor) -> Rows:
        if id(tensor) in self.rows:
            return self.rows[id(tensor)][1]
        if id(tensor) in self.held:
            return Rows(frozenset([self.held[id(tensor)]]), _codes(tensor.shape))
        return self._unknown("the input of the model, or a tensor that its code makes")

    def _unknown(self, words: str) -> Rows:
        return Rows(frozenset([words]), None)

    def _leak(self, rows: Rows, reader: str) -> None:
        for source in rows.sources:
            self.leaks.setdefault(source, reader)

    def _as_codes(self, args: Any) -> Any:
        return tree_map(
            lambda each: (
                self._rows(each).codes if isinstance(each, Tensor) and _is_float(each) else each
            ),
            args,
        )

    def _forget_views(self, changed: list[Tensor]) -> None:
        """What shares its numbers with a tensor that was changed in place is no longer known."""
        places = {tensor.untyped_storage().data_ptr() for tensor in changed}
        for key, (tensor, _) in list(self.rows.items()):
            if tensor.untyped_storage().data_ptr() in places:
                self.rows[key] = (tensor, self._unknown("a tensor that was changed in place"))


def _is_known(module: nn.Module) -> bool:
    """Whether fold knows what the layer computes: these very classes, with weights of their own."""
    if type(module) not in KNOWN:
        return False
    if isinstance(module, nn.MultiheadAttention):
        return module.in_proj_weight is not None and module.bias_k is None
    if isinstance(module, nn.Linear):
        return "weight" in module._parameters
    return not isinstance(module, nn.Embedding) or module.max_norm is None


def _tensors(tree: Any) -> list[Tensor]:
    return [each for each in tree_leaves(tree) if isinstance(each, Tensor)]


def _is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def _codes(shape: torch.Size) -> Tensor:
    """A number for each place of the last axis; sums and means of others do not meet them."""
    size = shape[-1] if shape else 1
    codes = torch.rand(size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    return codes.expand(shape) if shape else codes[0]


def _are_whole(rows: Rows, size: tuple[int, ...]) -> bool:
    if rows.codes is None or len(size) != 1 or rows.codes.shape[-1:] != size:
        return False
    return _are_same(rows.codes, _codes(rows.codes.shape))


def _common(codes: list[Tensor | None], shape: torch.Size) -> Tensor | None:
    """The codes of a sum, where those of its parts are the same."""
    wide = [each.expand(shape) for each in codes if each is not None]
    return wide[0] if wide and all(_are_same(each, wide[0]) for each in wide) else None


def _are_same(codes: Tensor, others: Tensor) -> bool:
    return torch.allclose(codes, others, rtol=1e-9, atol=0)  # a mean of equal codes is rounded
