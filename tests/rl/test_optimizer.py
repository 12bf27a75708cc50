"""Adam and RAdam on one vector, Muon, and a gradient's norm, against slow NumPy versions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from jaxrl.algos import iql, mappo, qmix
from jaxrl.rl import optimizer
from jaxrl.rl.learn import gradient_of_parts
from jaxrl.rl.optimizer import OPTIMIZERS, gradient_step, new_opt_state

STEPS = 4
D, H, A = 6, 4, 3


def parameters(seed, param_sets=()):
    """A hidden layer, a recurrent one, a picture's and an output layer, for each of the param_sets."""
    rng = np.random.default_rng(seed)
    shapes = {
        "torso": {"kernel": (D, H), "bias": (H,)},
        "gru": {"recurrent": (H, 3 * H), "recurrent_bias": (H,)},
        "conv": {"kernel": (3, 3, 2, H)},
        "policy": {"output": {"kernel": (H, A), "bias": (A,)}},
    }
    fill = lambda shape: rng.normal(size=(*param_sets, *shape)).astype(np.float32)  # noqa: E731
    return jax.tree.map(fill, shapes, is_leaf=lambda x: isinstance(x, tuple))


def directions(name, gradients):
    """The optimiser's direction for each of the gradients, one after another, as trees."""
    flat, as_params = ravel_pytree(gradients[0])
    chosen = OPTIMIZERS[name](as_params)
    state, out = chosen.init(flat), []
    for gradient in gradients:
        direction, state = chosen.update(ravel_pytree(gradient)[0], state)
        out.append(as_params(jnp.asarray(direction)))
    return out


def slow_adam(gradients):
    first, second, out = 0.0, 0.0, []
    for t, g in enumerate(gradients, start=1):
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        out.append(first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-5))
    return out


def slow_radam(gradients):
    """Momentum alone as long as the variance of the second moment is unknown, which is for about five steps."""
    first, second, out = 0.0, 0.0, []
    infinite = 2 / (1 - 0.999) - 1
    for t, g in enumerate(gradients, start=1):
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        momentum = first / (1 - 0.9**t)
        length = infinite - 2 * t * 0.999**t / (1 - 0.999**t)
        known = (length - 4) * (length - 2) * infinite / ((infinite - 4) * (infinite - 2) * length)
        adaptive = np.sqrt(max(known, 0)) * momentum / (np.sqrt(second / (1 - 0.999**t)) + 1e-5)
        out.append(adaptive if length >= 5 else momentum)
    return out


def slow_muon(gradients):
    """Nesterov's momentum, unbiased; five Newton-Schulz steps in terms of the singular values; the entries' size."""
    momentum, out = 0.0, []
    for t, g in enumerate(gradients, start=1):
        momentum = 0.95 * momentum + 0.05 * g
        ahead = 0.95 * momentum / (1 - 0.95 ** (t + 1)) + 0.05 * g / (1 - 0.95**t)
        u, s, v = np.linalg.svd(ahead, full_matrices=False)
        s = s / np.sqrt(np.sum(s**2))
        for _ in range(5):
            s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
        out.append((u * s) @ v * 0.2 * np.sqrt(max(g.shape)))
    return out


def test_adam():
    gradients = [parameters(seed) for seed in range(STEPS)]
    for t, direction in enumerate(directions("adam", gradients)):
        expected = jax.tree.map(lambda *g, t=t: slow_adam(g)[t], *gradients)
        jax.tree.map(lambda mine, slow: np.testing.assert_allclose(mine, slow, rtol=1e-4), direction, expected)


def test_radam():
    gradients = [parameters(seed) for seed in range(8)]
    for t, direction in enumerate(directions("radam", gradients)):
        expected = jax.tree.map(lambda *g, t=t: slow_radam(g)[t], *gradients)
        # In float32, the length is a small difference of large numbers.
        jax.tree.map(lambda mine, slow: np.testing.assert_allclose(mine, slow, rtol=0.03), direction, expected)


def test_muon_turns_hidden_matrices_and_leaves_the_rest_to_adam():
    gradients = [parameters(seed) for seed in range(STEPS)]
    for t, direction in enumerate(directions("muon", gradients)):
        for layer, name, slow in (
            ("torso", "kernel", slow_muon),
            ("torso", "bias", slow_adam),
            ("gru", "recurrent", slow_muon),
            ("gru", "recurrent_bias", slow_adam),
            ("conv", "kernel", slow_adam),
        ):
            expected = slow([g[layer][name] for g in gradients])[t]
            np.testing.assert_allclose(
                direction[layer][name], expected, rtol=2e-4, atol=2e-5, err_msg=f"{layer} {name}"
            )
        output = slow_adam([g["policy"]["output"]["kernel"] for g in gradients])[t]
        np.testing.assert_allclose(direction["policy"]["output"]["kernel"], output, rtol=1e-4)


@pytest.mark.parametrize("algo", [iql, mappo, qmix])
def test_muon_takes_the_layers_that_an_activation_follows(algo):
    """Adam has all others: heads, and in QMIX the layers from which a mixer reads its weights and biases."""
    config = algo.Config(env="mpe/simple_spread", hidden=(8,), head_hidden=(8,), optimizer="muon")
    state = jax.eval_shape(algo.make(config).init, jax.random.key(0))
    chosen = {"muon": set(), "adam": set()}
    names = jax.tree_util.tree_map_with_path(lambda path, _: tuple(entry.key for entry in path), state.params)
    labels = jax.tree.leaves(optimizer._labels(state.params))
    for path, label in zip(jax.tree.leaves(names, is_leaf=lambda x: isinstance(x, tuple)), labels, strict=True):
        if path[-1] == "kernel":
            chosen[label].add(any(name.startswith("MLP") for name in path))
    assert chosen == {"muon": {True}, "adam": {False}}


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_muon_does_not_mind_the_scale_of_gradients(scale):
    gradient = parameters(0)
    scaled = jax.tree.map(lambda g: g * np.float32(scale), gradient)
    (plain,), (other,) = directions("muon", [gradient]), directions("muon", [scaled])
    np.testing.assert_allclose(other["torso"]["kernel"], plain["torso"]["kernel"], rtol=1e-3, atol=1e-4)


def test_muon_turns_each_groups_matrix_by_itself():
    both = parameters(0, param_sets=(2,))
    (direction,) = directions("muon", [both])
    for group in range(2):
        (own,) = directions("muon", [jax.tree.map(lambda leaf, group=group: leaf[group], both)])
        jax.tree.map(
            lambda mine, alone, group=group: np.testing.assert_allclose(mine[group], alone, rtol=1e-4, atol=1e-6),
            direction,
            own,
        )


def test_a_gradient_is_scaled_down_to_a_global_norm():
    """The first is far beyond it, and so are some of its entries alone; the second is within, and stays as it is."""
    most, lr = 0.5, 0.1
    gradients = [jax.tree.map(lambda g, scale=scale: np.float32(scale) * g, parameters(1)) for scale in (30.0, 0.01)]
    params = jax.tree.map(np.zeros_like, gradients[0])
    loss = lambda p, g: (ravel_pytree(jax.tree.map(jnp.multiply, p, g))[0].sum(), {})  # noqa: E731
    opt_state, clipped, wanted = new_opt_state(params, "adam"), [], np.zeros(ravel_pytree(params)[0].size)
    for gradient in gradients:
        params, opt_state, losses = gradient_step(loss, params, opt_state, gradient, "adam", lr, most)
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
        norm = np.sqrt(np.sum(np.square(flat)))
        np.testing.assert_allclose(losses["grad_norm"], norm, rtol=1e-5)  # as it was
        clipped.append(flat * min(1.0, most / norm))
        wanted -= lr * slow_adam(clipped)[-1]
        np.testing.assert_allclose(ravel_pytree(params)[0], wanted, rtol=1e-3, atol=1e-5)
    first, second = (np.linalg.norm(gradient) for gradient in clipped)
    assert second < most
    assert first == pytest.approx(most)


@pytest.mark.parametrize("num_parts", [1, 2, 6])
def test_the_mean_over_parts_is_the_minibatchs_gradient_and_facts(num_parts):
    """Two steps of six sequences, with one memory for each sequence, and a penalty on the parameters."""
    x, memory = np.random.default_rng(0).normal(size=(2, 2, 6, 3)).astype(np.float32)
    memory = memory[:1]

    def loss(params, minibatch):
        x, memory = minibatch
        each = jnp.square(x @ params) * memory.sum(-1)
        return each.mean() + jnp.square(params).sum(), {"mean": each.mean(), "sequences": jnp.float32(x.shape[1])}

    params = np.array([0.5, -1.0, 2.0], np.float32)
    gradient, facts = gradient_of_parts(loss, params, (x, memory), num_parts)
    slow = sum(2 * (x[t, r] @ params) * memory[0, r].sum() * x[t, r] for t in range(2) for r in range(6)) / 12
    np.testing.assert_allclose(gradient, slow + 2 * params, rtol=1e-4)
    np.testing.assert_allclose(facts["mean"], (np.square(x @ params) * memory.sum(-1)).mean(), rtol=1e-5)
    assert facts["sequences"] == 6 / num_parts


def test_each_parameter_set_has_a_learning_rate():
    """Along the first axis, though the last has the same length; and parts of the tree can have a single one."""
    params = {"actor": {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}, "critic": jnp.ones((2, 2))}
    loss = lambda p, _: (ravel_pytree(p)[0].sum(), {})  # noqa: E731
    rates = {"actor": jnp.array([0.25, 0.5]), "critic": 0.125}
    stepped, *_ = gradient_step(loss, params, new_opt_state(params, "adam"), None, "adam", rates, 1e9)
    expected = {"actor": {"w": [[0.75, 0.75], [0.5, 0.5]], "b": [0.75, 0.5]}, "critic": np.full((2, 2), 0.875)}
    np.testing.assert_allclose(stepped["actor"]["w"], expected["actor"]["w"], rtol=1e-4)
    np.testing.assert_allclose(stepped["actor"]["b"], expected["actor"]["b"], rtol=1e-4)
    np.testing.assert_allclose(stepped["critic"], expected["critic"], rtol=1e-4)


@pytest.mark.parametrize("sets", [(), (2,)])
def test_weight_decay_is_adamw_of_weights_alone(sets):
    """AdamW of optax is the reference; biases are learned without decay."""
    lr, decay, params = 0.05, 0.3, parameters(0, sets)
    weights = {name: jax.tree_util.tree_map_with_path(_is_weight, each) for name, each in params.items()}
    reference = optax.adamw(lr, eps=1e-5, weight_decay=decay, mask=weights)
    theirs, state, update = params, reference.init(params), jax.jit(reference.update)
    mine, opt_state = params, new_opt_state(params, "adam")
    for seed in range(1, STEPS):
        gradient = parameters(seed, sets)
        updates, state = update(gradient, state, theirs)
        theirs = optax.apply_updates(theirs, updates)
        mine, opt_state, _ = gradient_step(_linear, mine, opt_state, gradient, "adam", lr, 1e9, decay)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), mine, theirs)


def _is_weight(path, leaf):
    return path[-1].key in ("kernel", "recurrent")


def _linear(params, gradient):
    """A loss with this gradient."""
    return jnp.vdot(ravel_pytree(params)[0], ravel_pytree(gradient)[0]), {}
