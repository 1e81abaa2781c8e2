"""Counterexamples to claims of the articles, and what holds.

notebooks/reference/claims.md names them. What an evaluated equation already decides is not repeated
here: claims.yaml names the tag instead.
"""

import copy
import math

import pytest
import torch
from torch import nn

from normcourse import draw, measures, training
from normcourse.checks import rms_norm_in_models as check
from normlib import functional, gradients, layers
from tools import sources


@pytest.fixture(autouse=True)
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def rms(x, eps=0.0):
    return functional.rms_norm(x, x.shape[-1:], eps=eps)


def layer_norm(x, eps=0.0):
    return functional.layer_norm(x, x.shape[-1:], eps=eps)


def jacobian(function, x):
    return torch.autograd.functional.jacobian(function, x)


def test_A03_what_a_swap_adds():
    count = {
        cls: sum(p.numel() for p in cls(512).parameters()) for cls in (layers.RMSNorm, layers.DyT)
    }
    assert count == {layers.RMSNorm: 512, layers.DyT: 512 + 512 + 1}


def test_A32_A216_only_two_moments_are_fixed():
    x = -torch.log(torch.rand(4000, 1, generator=torch.Generator().manual_seed(0)))  # exponential
    y = functional.batch_norm(x, None, None, training=True, eps=1e-12)
    skewness = [((z - z.mean()) ** 3).mean() / z.var(correction=0) ** 1.5 for z in (x, y)]
    assert torch.isclose(*skewness) and skewness[1] > 1.5  # 0 for a normal distribution


def test_A43_the_largest_absolute_eigenvalue_counts():
    curvature = torch.autograd.functional.hessian(lambda x: -50 * (x**2).sum(), draw(3))
    # none is above 0
    assert torch.allclose(torch.linalg.eigvalsh(curvature), torch.full((3,), -100.0))
    # and this is the gradient's Lipschitz constant
    assert torch.linalg.matrix_norm(curvature, 2) == 100


def test_A44_every_rate_below_two_over_the_curvature_descends():
    curvatures = torch.tensor([0.1, 1.0, 5.0])
    largest = curvatures.max()

    def losses(rate):
        x = torch.ones(3)
        found = []
        for _ in range(50):
            found.append((curvatures * x**2).sum() / 2)
            x = x - rate * curvatures * x
        return torch.stack(found)

    for share in (0.5, 1.0, 1.5, 1.99):
        assert (losses(share / largest).diff() < 0).all()  # monotone far beyond 1 over it
    assert losses(2.1 / largest)[-1] > losses(2.1 / largest)[0]


def test_A60_equal_outputs_and_unequal_jacobians():
    x = draw(6) - draw(6).mean()
    assert torch.allclose(layer_norm(x), rms(x))
    apart = jacobian(rms, x) - jacobian(layer_norm, x)
    assert torch.allclose(apart, torch.full((6, 6), 1 / (6 * x.std(correction=0).item())))


def test_A66_the_curvature_in_v():
    goal = torch.tensor([2.0, -1.0, 0.5])
    direction = torch.tensor([1.0, 2.0, -1.0]) / 6**0.5

    def loss_of(v):  # convex in the weights, with curvature 1
        return (v / v.norm() - goal).square().sum() / 2

    curvatures = [
        torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss_of, length * direction))
        for length in (0.1, 1.0, 10.0)
    ]
    torch.testing.assert_close(curvatures[0], 100 * curvatures[1])
    torch.testing.assert_close(curvatures[2], curvatures[1] / 100)
    assert curvatures[1][0] < -1
    assert curvatures[1][-1] > 1


def test_A78_far_out_every_slope_falls():
    x = draw(8)
    near, far = (torch.linalg.matrix_norm(jacobian(rms, t * x), 2) for t in (1, 10))
    assert torch.isclose(near, 10 * far)  # RMSNorm: as 1/t
    alpha, c, largest = torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0])
    dyt = [jacobian(lambda z: functional.dyt(z, alpha), t * largest).item() for t in (1, 10)]
    dyisru = [
        jacobian(lambda z: functional.dyisru(z, c, scale=1.0), t * largest).item() for t in (1, 10)
    ]
    assert dyt[1] < 1e-12 * dyt[0] and 500 < dyisru[0] / dyisru[1] < 1000  # exponentially; as 1/t^3


def test_A80_a_loss_needs_a_bound():
    # one function, loss 100 with probability 1 %: complexity 0, mean 1
    n, delta, rare = 10, 0.05, 0.01
    bound_if_unseen = math.sqrt(math.log(1 / delta) / (2 * n))
    # fails with probability 0.9, not 0.05
    assert bound_if_unseen < 100 * rare and (1 - rare) ** n > 0.9


def test_A81_no_bound_by_the_size_of_weights_before_a_norm():
    x, w = draw(5, 4), draw(3, 4, seed=1)
    assert torch.allclose(rms(x @ w.T), rms(x @ (1e-6 * w).T))


def test_A82_with_one_feature_dyt_can_be_all_that_rms_norm_is():
    x = draw(20, 1)
    # one choice of its parameter; others give more functions
    steep = functional.dyt(x, torch.tensor([1e9]))
    assert torch.allclose(steep, rms(x)) and torch.equal(rms(x).round(), x.sign())


def test_A46_A47_two_directions():
    x, z = draw(2, 9999, 3, seed=20)
    lengths = torch.stack([x.norm(dim=1), z.norm(dim=1)])
    apart = (x / lengths[0, :, None] - z / lengths[1, :, None]).norm(dim=1)
    rows_apart = (x - z).norm(dim=1)
    assert (apart <= 2).all()
    assert (apart <= (1 + 1e-12) * rows_apart / lengths.mean(0)).all()  # EQ-UNIT-BOUND
    assert (apart <= (1 + 1e-12) * rows_apart / lengths.amin(0)).all()  # twice less than is said
    assert (apart > 0.99 * rows_apart / lengths.mean(0)).any()


def test_A48_steepest_at_0():
    eps = 1e-5
    first, second = 1e-4 * draw(2, 9999, 6, seed=19)

    def norm(v):
        return functional.rms_norm(v, (6,), None, eps)

    slopes = measures.lipschitz_estimate(norm, first, second)
    assert 0.95 * eps**-0.5 < slopes <= eps**-0.5
    far = first / first.norm(dim=1, keepdim=True)  # without eps, at the distance 1 from 0
    shifted = (first + second) / (first + second).norm(dim=1, keepdim=True)
    slopes = measures.lipschitz_estimate(
        lambda v: functional.rms_norm(v, (6,), None, 0.0), far, shifted
    )
    assert slopes <= (1 + 1e-12) * 6**0.5


def test_A87_compare_at_equal_scale():
    x = draw(16)
    rho = x.square().mean().sqrt()
    slope_at_0 = jacobian(lambda z: functional.dyt(z, 1 / rho[None], scale=4.0), torch.zeros(16))
    assert torch.isclose(torch.linalg.matrix_norm(slope_at_0, 2), 1 / rho)
    assert torch.isclose(torch.linalg.matrix_norm(jacobian(rms, x), 2), 1 / rho)


def test_A89_who_has_the_higher_similarity_depends_on_the_rows():
    curves = {"dyt": torch.tanh, "dyisru": functional.isru}

    def similarity(x, curve):
        """Of the diagonals, with the knee that is fitted; a scale does not matter to a cosine."""
        y = functional.rms_norm(x, (16,), eps=0.0)

        def error(knee):
            h = curve(x / knee)
            return measures.relative_error((h * y).sum() / h.square().sum() * h, y)

        place = (x / measures.best_knee(error, x)).requires_grad_()
        (slopes,) = torch.autograd.grad(curve(place).sum(), place)
        truth = (1 - y.square() / 16) / x.square().mean(-1, keepdim=True).sqrt()
        return torch.cosine_similarity(truth, slopes, dim=-1).mean()

    plain = draw(1000, 16)
    sizes = plain * draw(1000, 1, seed=500).exp()
    heavy = plain / draw(3, 1000, 16, seed=500).square().mean(0).sqrt()
    nearer = []
    for x in (sizes, heavy):
        found = {name: similarity(x, curve) for name, curve in curves.items()}
        nearer.append(max(found, key=found.get))
    assert nearer == ["dyisru", "dyt"]


def test_A94_weights_before_a_norm_grow():
    w = draw(6, 6).requires_grad_()
    (rms(draw(5, 6, seed=1) @ w.T) ** 3).sum().backward()
    assert (w * w.grad).sum().abs() < 1e-12
    assert (w - 0.1 * w.grad).norm() > w.norm()


def test_A95_information_is_not_bounded_by_this_entropy():
    # y = x + noise of size 1e-6, x ~ N(0, 1), in nats
    information = 0.5 * math.log(1 + 1 / 1e-6**2)
    assert information > 13 > math.log(2 * math.pi * math.e)


def test_A96_A104_the_noise_goes_with_the_batch_and_the_coupling_stays():
    spread = {}
    for m in (4, 256):
        x = draw(400, m, 1)
        x[:, 0] = 0.5  # one sample, in the company of 400 others
        x = x.squeeze(-1).T
        y = functional.batch_norm(x, None, None, training=True, eps=1e-12)
        spread[m] = y[0].std().item()
    assert 6 < spread[4] / spread[256] < 11  # about the root of 256/4
    coupled = gradients.batch_norm_jacobian(draw(256, 1), eps=1e-12)[0]
    assert (coupled[0, 1:] != 0).all()


def listing(x, weight, eps):
    """The listing with x squared in its own dtype."""
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def test_A116_a_listing_that_stays_in_half_precision():
    x = draw(4, 64).sign() * 300
    assert (listing(x.half(), 1.0, 1e-6) == 0).all()  # x² is infinite
    assert torch.allclose(listing(x.float(), 1.0, 1e-6), rms(x.float(), 1e-6))


def test_what_lesson_03a_s_check_says_about_the_listings():
    """sources.md quotes the check, in this order."""

    def in_float32(x, weight, eps):
        return listing(x.float(), 1.0, eps).type_as(x) * weight

    def without_keepdim(x, weight, eps):
        return x / torch.sqrt(x.square().mean(-1) + eps) * weight

    written = (listing, in_float32, without_keepdim)
    page = sources.PAGE.read_text("utf-8")
    for function, row in zip(written, sources.sources()["code"], strict=True):
        assert row["says"] in check.every_type(function)
        assert f'"{row["says"]}": ' in page
    half = draw(4, 4).half()
    assert in_float32(half, torch.ones(4, dtype=torch.float32), 1e-6).dtype == torch.float32


def test_A118_the_sum_needs_float32_and_division_does_not():
    a, b = (1 + draw(2, 1000).abs()).half()
    exact = a.double() / b.double()
    assert ((a / b).double() / exact - 1).abs().max() <= 2**-11
    terms = torch.full((4096,), 0.1).half()
    total = sum(terms[1:], terms[0])
    assert (total / (4096 * terms[0].float()) - 1).abs() > 0.01


def deep_gradient(gain, start=1.0, norm=None, depth=20, width=64):
    x = (start * draw(64, width)).requires_grad_()
    h = x
    for k in range(depth):
        h = gain * h @ draw(width, width, seed=k + 1) * (2 / width) ** 0.5
        h = torch.relu(h if norm is None else norm(h))
    (h * draw(64, width, seed=99)).sum().backward()
    return x.grad.norm().item()


def test_A122_A133_weights_decide_and_not_the_size_of_the_input():
    sizes = [deep_gradient(1.0, start) for start in (0.01, 1.0, 100.0)]
    assert max(sizes) <= (1 + 1e-9) * min(sizes)
    assert deep_gradient(0.5) < 1e-5 * sizes[1] < 1e-10 * deep_gradient(2.0)


def test_A124_batch_norm_frees_from_the_weights_scale_and_not_from_depth():
    def norm(h):
        return functional.batch_norm(h, None, None, training=True, eps=1e-12)

    shallow, deep = deep_gradient(1.0, norm=norm, depth=10), deep_gradient(1.0, norm=norm, depth=30)
    half = deep_gradient(0.5, norm=norm, depth=30)
    assert math.isclose(deep, half, rel_tol=1e-6)
    assert deep > 1.1**20 * shallow


def test_A128_a_row_is_normalized_by_itself():
    x = draw(8, 5)
    assert torch.equal(layer_norm(x)[:1], layer_norm(x[:1]))


def test_A135_a_bias_undoes_a_shift_before_a_linear_layer_only():
    x, w = draw(50, 8), draw(8, 8, seed=1)
    assert torch.allclose((x + 2) @ w.T - (2 * torch.ones(8)) @ w.T, x @ w.T)
    moved = rms(x + 2) - rms(x)
    assert (moved - moved.mean(0)).std() > 0.3  # differs from row to row: no constant undoes it


def test_A136_relu_is_blind_to_scale_and_not_to_shift():
    z = torch.special.ndtri((torch.arange(4096) + 0.5) / 4096)
    on = z > 0
    assert torch.equal(10 * z > 0, on)
    assert abs(((z + 0.5 > 0) != on).double().mean().item() - 0.1915) < 1e-3


def test_A139_A143_after_relu_the_mean_is_a_third_of_the_square():
    h = torch.relu(torch.special.ndtri((torch.arange(4096) + 0.5) / 4096))
    share = h.mean() ** 2 / h.square().mean()
    assert abs(share - 1 / math.pi) < 1e-3
    assert abs(rms(h).var(correction=0) - (1 - 1 / math.pi)) < 1e-3


def test_A141_A222_A224_only_pre_norm_has_a_free_path():
    x = draw(16)

    def post(z):
        return layer_norm(z + 0 * z)  # LN(x + F(x)) with F = 0

    def pre(z):
        return z + 0 * layer_norm(z)  # x + F(LN(x))

    assert torch.linalg.matrix_rank(jacobian(post, x), rtol=1e-10) == 14
    assert torch.equal(jacobian(pre, x), torch.eye(16))


def test_A155_A231_a_large_entry_stays_large():
    dy = torch.ones(64)
    dy[0] = 1000.0
    x = draw(64).requires_grad_()
    for norm in (rms, layer_norm):
        (dx,) = torch.autograd.grad(norm(x), x, dy)
        assert dx[0].abs() > 20 * dx.abs().median()


def test_A157_rsqrt_is_as_accurate_as_the_division():
    x = (0.25 + draw(10_000).abs()).float()
    exact = x.double().rsqrt()
    for root in (x.rsqrt(), 1 / x.sqrt()):
        ulp = torch.nextafter(root, torch.full_like(root, 9.0)) - root
        assert ((root - exact).abs() / ulp).max() < 2


def test_A158_without_keepdim_an_error_or_a_wrong_result():
    with pytest.raises(RuntimeError):
        draw(3, 4) / draw(3, 4).square().mean(-1).sqrt()
    x = draw(4, 4)
    wrong = x / x.square().mean(-1).sqrt()  # each column divided by another row's size
    assert (wrong - rms(x)).abs().max() > 0.1


def test_A159_where_half_types_end():
    assert torch.tensor([255.0, 256.0]).half().square().isinf().tolist() == [False, True]
    hundreds = torch.full((64,), 100.0).half()
    assert hundreds.square().mean() == 10000  # torch's mean adds in float32
    assert sum([torch.tensor(1e4).half()] * 7).isinf()
    assert torch.tensor(1e10).bfloat16().square().isfinite()
    assert torch.tensor(257.0).bfloat16() == 256


def test_A166_what_explodes_near_zero_is_the_gradient():
    x = draw(64)
    for size in (1.0, 1e-15, 1e-150):
        assert rms(size * x).abs().max() <= 8
    assert rms(torch.zeros(64)).isnan().all()
    assert rms(1e-170 * x).isinf().any()  # x² underflows
    small = (1e-15 * x).requires_grad_()
    (dx,) = torch.autograd.grad(rms(small), small, draw(64, seed=1))
    assert dx.norm() > 1e14


def test_A168_where_this_eps_halves_the_output():
    x = torch.full((8,), (1e-5 / 3) ** 0.5)
    assert torch.allclose(rms(x, 1e-5), torch.full((8,), 0.5))


def test_A171_A172_limits_and_slopes_of_the_sigmoid():
    assert torch.sigmoid(torch.tensor(-40.0)) < 1e-15
    x = torch.linspace(-6, 6, 1201)
    slope = torch.sigmoid(x) * (1 - torch.sigmoid(x))
    assert slope.argmax() == 600 and torch.isclose(slope[600], torch.tensor(0.25))
    # GELU's lowest point: no limit of the output
    bottom = torch.tensor(-0.7517915, requires_grad=True)
    (flat,) = torch.autograd.grad(nn.functional.gelu(bottom), bottom)
    assert flat.abs() < 1e-6 and nn.functional.gelu(torch.tensor(-9.0)).abs() < 1e-6


def test_A176_distances_from_the_limits():
    def nearer(x):
        y = torch.tensor(x).sigmoid().item()
        return min(y, 1 - y)

    assert 0.017 < nearer(4.0) < 0.018
    assert nearer(1.0) > 0.268


def test_A178_the_sigmoid_saturates_on_both_sides():
    low, high = torch.sigmoid(torch.tensor([-6.0, 6.0]))
    assert torch.isclose(low * (1 - low), high * (1 - high))


def test_A194_heads_share_one_loss():
    def loss(outputs):
        return outputs.sum() ** 2

    mixed = torch.autograd.functional.hessian(loss, draw(2))[0, 1]
    assert mixed == 2  # 0 for a sum of losses, one a head
    parts = draw(4, 8)
    assert torch.isclose(parts.norm() ** 2, parts.square().sum(-1).sum())


def test_A202_the_best_threshold_is_that_of_the_network():
    """Eight plain layers whose weights are 1.4 times too large; SGD, 40 steps, five seeds."""
    data = training.digits()

    def reached(threshold):
        found = []
        for seed in range(5):
            net = training.mlp(depth=8, seed=seed)
            with torch.no_grad():
                for layer in net[:-1:2]:
                    layer.weight.mul_(1.4)
            run = training.train(net, data, steps=40, lr=0.05, seed=seed, clip=threshold)
            found.append(run.validation_accuracy[-1])
        return sum(found) / len(found)

    low, one, ten, hundred = map(reached, (0.1, 1.0, 10.0, 100.0))
    assert low < 0.15
    assert ten > max(one, hundred) + 0.03


def test_A205_more_outputs_than_inputs_let_a_gradient_vanish():
    """Below the smallest singular value, which is 5, and exactly to 0."""
    weight = torch.tensor([[3.0], [4.0]])  # 2 outputs, 1 input
    g = torch.tensor([0.8, -0.6])
    assert torch.linalg.svdvals(weight).min() == pytest.approx(5)
    assert (weight.T @ g).abs() < 1e-12
    low, high = measures.gradient_bounds(weight)
    assert (low, high) == (0, pytest.approx(5))


def test_A207_the_product_of_norms_is_no_property_of_paths():
    """One hidden unit times 10 in, divided by 10 out: the same function, the same path norm."""
    first, second, x = draw(6, 4, seed=7), draw(3, 6, seed=8), draw(4, seed=2)
    scale = torch.ones(6)
    scale[0] = 10.0
    scaled = [scale[:, None] * first, second / scale]
    assert torch.allclose(scaled[1] @ (scaled[0] @ x).relu(), second @ (first @ x).relu())
    assert torch.isclose(measures.path_norm(scaled), measures.path_norm([first, second]))
    assert measures.chain_bound(scaled) > 4 * measures.chain_bound([first, second])


def direction_kept(norm, lr, seed):
    """Cosine of layer 4's gradient before and after the weights below it have stepped.

    The mean over 15 steps of training.
    """
    data = training.digits()
    x, y = data.train_x[:64], data.train_y[:64]

    def gradients_of(model):
        linears = [layer for layer in model if isinstance(layer, nn.Linear)]
        weights = [layer.weight for layer in linears[:4]]
        return weights, torch.autograd.grad(nn.functional.cross_entropy(model(x), y), weights)

    def look(model):
        moved = copy.deepcopy(model)
        weights, before = gradients_of(moved)
        with torch.no_grad():
            for weight, gradient in zip(weights[:3], before[:3], strict=True):
                weight.sub_(lr * gradient)
        _, after = gradients_of(moved)
        return nn.functional.cosine_similarity(before[3].flatten(), after[3].flatten(), dim=0)

    model = training.mlp(norm, depth=6, seed=seed)
    run = training.train(model, data, steps=15, lr=lr, seed=seed, watch=look)
    return sum(run.watched) / 15


@pytest.mark.parametrize("seed", [0, 1])
def test_A99_A121_where_steps_are_large_batch_norm_keeps_the_direction(seed):
    """The measure of Santurkar et al. 2018, section 2, who report the opposite of larger nets."""
    assert direction_kept(None, 0.01, seed) > 0.95
    assert direction_kept(layers.BatchNorm1d, 0.01, seed) > 0.95
    assert direction_kept(None, 0.1, seed) < 0.6
    assert direction_kept(layers.BatchNorm1d, 0.1, seed) > 0.65


def test_A213_A214_radius_stretch_and_rank_of_attention():
    """Of uniform weights, of a permutation, of one token that collects all, of a random choice."""
    n = 64
    identity = torch.eye(n)
    chosen = torch.randint(0, n, (n,), generator=torch.Generator().manual_seed(1))
    found = {}
    for name, weights in {
        "uniform": torch.full((n, n), 1 / n),
        "permutation": identity.roll(1, 0),
        "all on one": identity[[0] * n],
        "one each": identity[chosen],
    }.items():
        assert measures.spectral_radius(weights) == pytest.approx(1)
        rank = int(torch.linalg.matrix_rank(weights))
        found[name] = (round(float(measures.spectral_norm(weights)), 2), rank)
    assert found == {
        "uniform": (1.0, 1),
        "permutation": (1.0, n),
        "all on one": (8.0, 1),
        "one each": (1.73, 41),
    }


def test_A215_attention_weights_depend_on_the_hidden_state():
    h, dy = draw(6, 4).requires_grad_(), draw(6, 4, seed=1)
    weights = torch.softmax(h @ h.T, -1)
    (full,) = torch.autograd.grad(weights @ h, h, dy)
    assert (full - weights.detach().T @ dy).norm() > 0.3 * full.norm()


def test_A221_one_statistic_a_channel_over_batch_and_space():
    x = draw(3, 2, 4, 5)
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), correction=0, keepdim=True)
    y = functional.batch_norm(x, None, None, training=True, eps=1e-12)
    assert torch.allclose(y, (x - mean) / var.sqrt())


def test_A125_one_vector_raises_and_one_image_is_instance_norm():
    with pytest.raises(ValueError):
        functional.batch_norm(draw(1, 4), None, None, training=True)
    image = draw(1, 3, 4, 5)
    y = functional.batch_norm(image, None, None, training=True)
    assert torch.allclose(y, functional.instance_norm(image))


def rotated(x, position):
    """RoPE of one pair of entries."""
    angle = torch.tensor(0.3 * position)
    turn = torch.stack(
        [torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])]
    )
    return turn @ x


def test_A228_rope_turns_and_does_not_scale():
    q, k = draw(2), draw(2, seed=1)
    assert torch.isclose(rotated(q, 7).norm(), q.norm())
    assert torch.isclose(rotated(q, 7) @ rotated(k, 4), rotated(q, 13) @ rotated(k, 10))
    gain = torch.tensor([1.0, 2.0])
    assert (gain * rotated(rms(q), 7) - rotated(gain * rms(q), 7)).norm() > 0.1


def test_A229_the_stream_grows_and_the_norms_output_does_not():
    stream = draw(200, 32)
    for k in range(24):
        stream = stream + layer_norm(stream) @ draw(32, 32, seed=k + 1) / 32**0.5
    assert stream.square().mean() > 10
    assert torch.isclose(layer_norm(stream).square().mean(), torch.tensor(1.0))


def test_A233_A234_A236_two_scores_of_activation_functions():
    x = torch.linspace(-9, 9, 900_000)

    def average(values, scale=1.0):
        density = torch.exp(-((x / scale) ** 2) / 2)
        return ((values * density).sum() / density.sum()).item()

    slopes = {name: activation.slope(x) for name, activation in measures.ACTIVATIONS.items()}
    assert average(slopes["ReLU"] < 0.1) == pytest.approx(0.5)  # S
    assert average(slopes["tanh"].abs() < 0.1) < 0.1 < average(slopes["tanh"].abs() < 0.1, scale=3)
    distance = {name: average((slope - 1).abs()) for name, slope in slopes.items()}  # G
    assert 0 < distance["tanh"] < distance["ReLU"] < distance["GELU"]


def test_A237_relu_nets_approximate_what_they_are_given_units_for():
    x = torch.linspace(0, 3, 2001)
    errors = []
    for units in (10, 40, 160):
        knots = torch.linspace(0, 3, units + 1)
        slopes = torch.sin(2 * knots).diff() / knots.diff()
        # one ReLU a knot: piecewise linear interpolation
        bends = torch.cat([slopes[:1], slopes.diff()])
        net = torch.relu(x[:, None] - knots[:-1]) @ bends
        errors.append((net - torch.sin(2 * x)).abs().max().item())
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
