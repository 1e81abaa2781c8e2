"""Which parameters weight decay pulls: the weights alone, or the gains of some norms as well."""

from torch import nn

from normcourse.training.models import Block

# beside the weights of all layers ("matrices"): the gains of the norms that stand there
DECAYED = ("nothing", "matrices", "input", "output", "last", "gains")
WITHOUT_HEAD = ("matrices_without_head", "last_without_head")  # the net's last matrix stays free


def decay_groups(net: nn.Module, weight_decay: float, decayed: str) -> list[dict]:
    """Two groups for an optimizer: what is decayed, and the rest with a weight_decay of 0.

    Args:
        decayed: of DECAYED or WITHOUT_HEAD. "matrices" are all parameters with two axes or more;
            the others add the gains of the norms before a Block's branch ("input"), behind it
            ("output"), of those outside the Blocks ("last"), or of all of them ("gains"). Biases
            are never decayed.
    Raises: ValueError (another name).
    """
    names = (*DECAYED, *WITHOUT_HEAD)
    if decayed not in names:
        expected = ", ".join(map(repr, names))
        raise ValueError(f"Weight decay needs one of {expected}, got {decayed!r}.")
    places = gains_by_place(net)
    chosen: list[nn.Parameter] = []
    if decayed != "nothing":
        chosen += [parameter for parameter in net.parameters() if parameter.dim() >= 2]
    if decayed in WITHOUT_HEAD:
        chosen.pop()
    for place, gains in places.items():
        if decayed in (place, f"{place}_without_head", "gains"):
            chosen += gains
    ids = set(map(id, chosen))
    rest = [parameter for parameter in net.parameters() if id(parameter) not in ids]
    return [
        {"params": chosen, "weight_decay": weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]


def gains_by_place(net: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The gains of the norms before a branch, behind one, and outside the Blocks."""
    places: dict[str, list[nn.Parameter]] = {"input": [], "output": [], "last": []}
    for name, module in net.named_modules():
        gain = getattr(module, "weight", None)
        if not isinstance(gain, nn.Parameter) or gain.dim() != 1:
            continue
        path, _, own = name.rpartition(".")
        block = net.get_submodule(path)
        if not isinstance(block, Block):
            places["last"].append(gain)
        elif own == "output_norm" or block.placement in ("post", "output"):
            places["output"].append(gain)
        else:
            places["input"].append(gain)
    return places
