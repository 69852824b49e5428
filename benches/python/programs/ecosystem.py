"""Steps of training, sampling and simulation, written with the libraries around JAX."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from programs.registry import Draw, Made, program


@program("ecosystem", "flax")
def flax_adam_step(draw: Draw) -> Made:
    """A convolutional classifier of flax.linen, its gradient and a step of Adam."""
    import flax.linen as nn
    import jax
    import optax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.relu(nn.Conv(16, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
            return nn.Dense(10)(nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1))))

    images, labels = draw.normal(32, 16, 16, 3), draw.integers(10, 32)
    net, adam = Net(), optax.adam(1e-3)
    weights = net.init(draw.key(), images)

    def step(weights: Any, state: Any, images: Any, labels: Any) -> Any:
        def loss(weights: Any) -> Any:
            scores = net.apply(weights, images)
            return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

        value, slope = jax.value_and_grad(loss)(weights)
        change, state = adam.update(slope, state)
        return optax.apply_updates(weights, change), state, value

    return step, (weights, adam.init(weights), images, labels)


@program("ecosystem", "flax")
def nnx_attention(draw: Draw) -> Made:
    """Two blocks of attention and a net of flax.nnx."""
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.attention = nnx.MultiHeadAttention(4, 64, decode=False, rngs=rngs)
            self.norm = nnx.LayerNorm(64, rngs=rngs)
            self.grow, self.shrink = nnx.Linear(64, 256, rngs=rngs), nnx.Linear(256, 64, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            x = x + self.attention(self.norm(x))
            return x + self.shrink(nnx.gelu(self.grow(x)))

    graph, weights = nnx.split([Block(nnx.Rngs(k)) for k in range(2)])

    def forward(weights: Any, x: Any) -> Any:
        for block in nnx.merge(graph, weights):
            x = block(x)
        return x

    return forward, (weights, draw.normal(4, 32, 64))


@program("ecosystem", "diffrax")
def diffrax_lorenz(draw: Draw) -> Made:
    """An adaptive Runge-Kutta method on the Lorenz system, from several places."""
    import diffrax
    import jax
    import jax.numpy as jnp

    def slope(t: Any, y: Any, args: Any) -> Any:
        return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    def solve(start: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(slope),
            diffrax.Tsit5(),
            0.0,
            1.0,
            0.01,
            start,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 11)),
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        ).ys

    return jax.vmap(solve), (1 + draw.normal(8, 3),)


@program("ecosystem", "diffrax")
def diffrax_neural_ode(draw: Draw) -> Made:
    """The gradient of a neural differential equation."""
    import diffrax
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    net = eqx.nn.MLP(2, 2, 32, 2, activation=jnp.tanh, key=jax.random.PRNGKey(0))
    weights, rest = eqx.partition(net, eqx.is_array)

    def loss(weights: Any, start: Any) -> Any:
        slope = eqx.combine(weights, rest)
        end = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: slope(y)), diffrax.Heun(), 0.0, 1.0, 0.05, start
        ).ys
        return jnp.sum(end**2)

    def total(weights: Any, starts: Any) -> Any:
        return jax.vmap(loss, (None, 0))(weights, starts).mean()

    return jax.value_and_grad(total), (weights, draw.normal(16, 2))


@program("ecosystem", "numpyro", 1e-2)
def numpyro_density(draw: Draw) -> Made:
    """The density of a hierarchical model of numpyro and its gradient, along a few leapfrog steps."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import initialize_model

    group, y = draw.integers(8, 100), draw.normal(100)

    def model(group: Any, y: Any) -> None:
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        spread = numpyro.sample("spread", dist.HalfCauchy(5))
        with numpyro.plate("groups", 8):
            centre = numpyro.sample("centre", dist.Normal(mean, spread))
        noise = numpyro.sample("noise", dist.Exponential(1))
        numpyro.sample("y", dist.Normal(centre[group], noise), obs=y)

    made = initialize_model(jax.random.PRNGKey(0), model, model_args=(group, y))
    start, slope = made.param_info.z, jax.grad(made.potential_fn)

    def leapfrog(place: Any, speed: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            place, speed = state
            speed = jax.tree.map(lambda s, d: s - 0.005 * d, speed, slope(place))
            place = jax.tree.map(lambda p, s: p + 0.01 * s, place, speed)
            return (place, speed), made.potential_fn(place)

        return jax.lax.scan(step, (place, speed), None, length=20)

    return leapfrog, (start, jax.tree.map(jnp.ones_like, start))


@program("ecosystem", "blackjax", 1e-2)
def blackjax_hmc(draw: Draw) -> Made:
    """Hamiltonian Monte Carlo of blackjax on a regression."""
    import blackjax
    import jax
    import jax.numpy as jnp

    x, truth = draw.normal(64, 5), draw.normal(5)
    y = x @ truth

    def density(w: Any) -> Any:
        return -0.5 * jnp.sum((x @ w - y) ** 2) - 0.5 * jnp.sum(w**2)

    kernel = blackjax.hmc(density, 1e-3, np.ones(5, np.float32), 5)

    def sample(key: Any, start: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, kernel.init(start), jax.random.split(key, 20))[1]

    return sample, (draw.key(), draw.normal(5))


@program("ecosystem", "equinox")
def equinox_recurrent(draw: Draw) -> Made:
    """The gradient of a recurrent net of equinox over a sequence."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    cell = eqx.nn.GRUCell(8, 32, key=jax.random.PRNGKey(1))
    weights, rest = eqx.partition(cell, eqx.is_array)

    def loss(weights: Any, sequences: Any) -> Any:
        step = eqx.combine(weights, rest)

        def last(sequence: Any) -> Any:
            return jax.lax.scan(lambda h, x: (step(x, h), None), jnp.zeros(32), sequence)[0]

        return jnp.mean(jax.vmap(last)(sequences) ** 2)

    return jax.value_and_grad(loss), (weights, draw.normal(16, 40, 8))


@program("ecosystem", "optax", 1e-2)
def optax_lbfgs(draw: Draw) -> Made:
    """L-BFGS of optax with its line search on a chained Rosenbrock function."""
    import jax
    import jax.numpy as jnp
    import optax

    def valley(x: Any) -> Any:
        return jnp.sum(10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    solver = optax.lbfgs(memory_size=5)
    value_and_slope = optax.value_and_grad_from_state(valley)

    def minimize(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, state = carry
            value, slope = value_and_slope(x, state=state)
            change, state = solver.update(slope, state, x, value=value, grad=slope, value_fn=valley)
            return (optax.apply_updates(x, change), state), value

        return jax.lax.scan(step, (x, solver.init(x)), None, length=5)[1]

    return minimize, (draw.uniform(6),)


@program("ecosystem", "optimistix", 1e-2)
def optimistix_least_squares(draw: Draw) -> Made:
    """Levenberg-Marquardt of optimistix fits a curve."""
    import jax.numpy as jnp
    import optimistix

    t = np.linspace(0, 3, 50, dtype=np.float32)
    y = 2 * np.exp(-1.5 * t) + draw.normal(50, scale=0.01)

    def residual(guess: Any, args: Any) -> Any:
        return guess[0] * jnp.exp(-guess[1] * t) - args

    def fit(guess: Any, y: Any) -> Any:
        solver = optimistix.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
        return optimistix.least_squares(residual, solver, guess, args=y, throw=False).value

    return fit, (np.ones(2, np.float32), y)


@program("ecosystem", "keras")
def keras_train_step(draw: Draw) -> Made:
    """A dense net of Keras on the JAX backend, with its gradient."""
    import os

    os.environ.setdefault("KERAS_BACKEND", "jax")
    import jax
    import jax.numpy as jnp
    import keras

    if keras.backend.backend() != "jax":
        raise RuntimeError("Keras was imported with another backend: set KERAS_BACKEND=jax")
    keras.utils.set_random_seed(0)
    net = keras.Sequential(
        [
            keras.Input((20,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    fixed = [v.value for v in net.non_trainable_variables]
    weights = [v.value for v in net.trainable_variables]

    def loss(weights: Any, fixed: Any, x: Any, y: Any) -> Any:
        scores, fixed = net.stateless_call(weights, fixed, x, training=True)
        return jnp.mean(keras.losses.sparse_categorical_crossentropy(y, scores)), fixed

    step = functools.partial(jax.value_and_grad, has_aux=True)(loss)
    return step, (weights, fixed, draw.normal(32, 20), draw.integers(3, 32))


@program("ecosystem", "brax", 1e-2)
def brax_pendulum(draw: Draw) -> Made:
    """Ten steps of an inverted pendulum of brax."""
    import jax
    from brax import envs

    world = envs.get_environment("inverted_pendulum", backend="spring")
    start = jax.jit(world.reset)(jax.random.PRNGKey(0))

    def run(state: Any, actions: Any) -> Any:
        return jax.lax.scan(lambda s, a: (world.step(s, a), s.obs), state, actions)[1]

    return run, (start, draw.uniform(10, 1, low=-1))
