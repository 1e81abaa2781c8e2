"""Surgery on torch.nn's transformer, whose fused inference path would pass the new layers by."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normlib import layers
from normlib.surgery import replace
from tests.library.norm_cases import draw
from tests.library.surgery_cases import trained

NEW = [layers.DyT, layers.DyISRU, layers.LayerNorm]
every_new = pytest.mark.parametrize("new", NEW)
every_placement = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
MASKS = [  # left aligned, so that torch would pack the rows into a nested tensor; not aligned; none
    torch.tensor([[False, False, True], [False, False, False]]),
    torch.tensor([[True, False, False], [False, False, False]]),
    None,
]
every_mask = pytest.mark.parametrize("mask", MASKS, ids=["aligned", "unaligned", "none"])


def encoder(norm_first, depth=2):
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    last = nn.LayerNorm(8, dtype=torch.float64) if norm_first else None
    model = nn.TransformerEncoder(layer, depth, last, enable_nested_tensor=not norm_first)
    for number, parameter in enumerate(model.parameters()):
        parameter.data = draw(*parameter.shape, seed=number) - 0.5
    return model.eval()


def by_hand(model, x, mask):
    """The encoder from its parts: what the layers compute when nothing is fused."""
    for layer in model.layers:

        def attend(z, layer=layer):
            return layer.self_attn(z, z, z, key_padding_mask=mask, need_weights=True)[0]

        def feed(z, layer=layer):
            return layer.linear2(torch.relu(layer.linear1(z)))

        if layer.norm_first:
            x = x + attend(layer.norm1(x))
            x = x + feed(layer.norm2(x))
        else:
            x = layer.norm1(x + attend(x))
            x = layer.norm2(x + feed(x))
    return x if model.norm is None else model.norm(x)


@every_new
@every_placement
@every_mask
def test_inference_runs_the_new_layers(new, norm_first, mask):
    model, report = replace(encoder(norm_first), nn.LayerNorm, new)
    assert len(report.replaced) == 4 + norm_first and not report.left
    x = draw(2, 3, 8)
    want = by_hand(model, x, mask).detach()
    for twin in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_close(twin(x, src_key_padding_mask=mask).detach(), want)
        with torch.no_grad():
            assert_close(twin(x, src_key_padding_mask=mask), want)
        with torch.inference_mode():
            assert_close(twin(x, src_key_padding_mask=mask), want)
        assert_close(twin.train()(x, src_key_padding_mask=mask).detach(), want)


@torch.no_grad()
@every_mask
def test_a_layer_of_its_own_and_one_replaced_norm_of_two(mask):
    model = encoder(False)
    layer = copy.deepcopy(model.layers[0])
    second = layer.norm2
    replace(
        layer, nn.LayerNorm, lambda old: old if old is second else trained(layers.RMSNorm(8, 1e-5))
    )
    model.layers, model.use_nested_tensor = nn.ModuleList([layer]), False
    x = draw(2, 3, 8)
    assert_close(layer(x, src_key_padding_mask=mask), by_hand(model, x, mask))


@torch.no_grad()
def test_a_layer_of_an_encoder_that_surgery_does_not_see_never_runs_the_old_norm():
    model, x = encoder(False), draw(2, 3, 8)
    replace(model.layers[1], nn.LayerNorm, layers.DyT)
    assert_close(model(x), by_hand(model, x, None))
    with warnings.catch_warnings(action="ignore"), pytest.raises(RuntimeError):
        # torch packs the rows for a path that the layer has left
        model(x, src_key_padding_mask=MASKS[0])


@torch.no_grad()
def test_an_encoder_without_surgery_keeps_its_fused_path():
    model = nn.ModuleDict({"old": encoder(False), "new": encoder(False), "lone": nn.RMSNorm(8)})
    last = model["new"].layers[1].norm2
    replace(model, nn.LayerNorm, lambda old: layers.DyT(8) if old is last else old)
    fused = [
        layer.activation_relu_or_gelu for name in ("old", "new") for layer in model[name].layers
    ]
    assert fused == [1, 1, 1, 0]
    assert model["old"].use_nested_tensor and not model["new"].use_nested_tensor


@every_new
def test_the_whole_transformer_with_its_decoder(new):
    model = nn.Transformer(
        8, 2, 1, 1, 16, dropout=0.0, batch_first=True, dtype=torch.float64
    ).eval()
    replace(model, nn.LayerNorm, new)
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())
    source, target = draw(2, 3, 8), draw(2, 4, 8, seed=1)
    want = model.train()(source, target).detach()
    with torch.no_grad():
        assert_close(model.eval()(source, target), want)


@torch.no_grad()
@every_placement
@every_mask
def test_a_fit_reads_what_the_fused_path_would_hide(norm_first, mask):
    x = draw(2, 3, 8)
    call = {"src": x, "src_key_padding_mask": mask}
    model, report = replace(encoder(norm_first), nn.LayerNorm, layers.DyT, fit_to=[call, (x,)])
    assert torch.backends.mha.get_fastpath_enabled()
    assert all(record.error_fitted < record.error_unfitted for record in report.replaced)
    assert_close(model(**call), by_hand(model, x, mask))
