"""Loops over small arrays: solvers, samplers, rigid bodies, agents, dynamic programming, scans."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "loops over small arrays"


@program(GROUP)
def runge_kutta(draw: Draw) -> Made:
    steps = draw.size(200, 5000)

    def slope(y: Any) -> Any:
        return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]) * 0.05

    def f(y: Any) -> Any:
        def step(_: Any, y: Any) -> Any:
            h = 0.002
            a = slope(y)
            b = slope(y + h / 2 * a)
            c = slope(y + h / 2 * b)
            return y + h / 6 * (a + 2 * b + 2 * c + slope(y + h * c))

        return jax.lax.fori_loop(0, steps, step, y)

    return f, (draw.normal(3),)


@program(GROUP, needs="diffrax")
def diffrax_adaptive(draw: Draw) -> Made:
    import diffrax

    n = draw.size(2, 16)

    def f(y: Any, a: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: args @ jnp.tanh(y)),
            diffrax.Tsit5(),
            0.0,
            10.0,
            0.01,
            y,
            args=a,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
            throw=False,
        ).ys

    return f, (draw.normal(n), draw.normal(n, n, scale=n**-0.5) - np.eye(n, dtype=np.float32))


@program(GROUP, needs="diffrax", tolerance=1e-2)
def diffrax_stiff(draw: Draw) -> Made:
    import diffrax

    def slope(_t: Any, y: Any, k: Any) -> Any:
        a = -k[0] * y[0] + k[1] * y[1] * y[2]
        c = k[2] * y[1] ** 2
        return jnp.stack([a, -a - c, c])

    def f(y: Any, k: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(slope),
            diffrax.Kvaerno5(),
            0.0,
            40.0,
            0.01,
            y,
            args=k,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
            throw=False,
        ).ys

    rates = np.array([0.04, 100.0, 3000.0], np.float32) * draw.uniform(3, low=0.8, high=1.2)
    return f, (np.array([1.0, 0.0, 0.0], np.float32), rates)


@program(GROUP, needs="blackjax", tolerance=1.0)
def blackjax_nuts(draw: Draw) -> Made:
    import blackjax

    d, n = draw.size(2, 10), draw.size(20, 200)

    def f(key: Any, x: Any, y: Any) -> Any:
        def density(w: Any) -> Any:
            return -0.5 * (w @ w) - 0.5 * ((x @ w - y) ** 2).sum()

        sampler = blackjax.nuts(density, step_size=0.02, inverse_mass_matrix=jnp.ones(d))

        def step(state: Any, key: Any) -> Any:
            state, _ = sampler.step(key, state)
            return state, state.position

        return jax.lax.scan(step, sampler.init(jnp.zeros(d)), jax.random.split(key, 20))[1].mean(0)

    x = draw.normal(n, d)
    return f, (draw.key(), x, x @ draw.normal(d) + draw.normal(n))


@program(GROUP, needs="numpyro", tolerance=1.0)
def numpyro_log_density(draw: Draw) -> Made:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    groups, n = draw.size(5, 50), draw.size(50, 1000)

    def model(at: Any, x: Any, y: Any) -> Any:
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        spread = numpyro.sample("spread", dist.HalfCauchy(5))
        with numpyro.plate("groups", groups):
            effect = numpyro.sample("effect", dist.Normal(mean, spread))
        numpyro.sample("y", dist.StudentT(4.0, effect[at] * x, 1.0), obs=y)

    def f(effect: Any, at: Any, x: Any, y: Any) -> Any:
        def density(effect: Any) -> Any:
            values = {"mean": effect.mean(), "spread": effect.std() + 0.1, "effect": effect}
            return log_density(model, (at, x, y), {}, values)[0]

        def step(_: Any, e: Any) -> Any:
            return e + 1e-4 * jax.grad(density)(e)

        return jax.lax.fori_loop(0, 50, step, effect)

    return f, (draw.normal(groups), draw.integers(groups, n), draw.normal(n), draw.normal(n))


@program(GROUP, needs="brax", tolerance=0.1)
def brax_rigid_bodies(draw: Draw) -> Made:
    from brax import envs

    env = envs.get_environment("inverted_pendulum", backend="spring")
    state = jax.jit(env.reset)(jax.random.PRNGKey(draw.size(1, 1000)))
    leaves, tree = jax.tree.flatten(state)

    def f(leaves: Any, actions: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            state = env.step(state, action)
            return state, state.reward

        last, rewards = jax.lax.scan(step, jax.tree.unflatten(tree, leaves), actions)
        return last.obs, rewards

    return f, ([np.asarray(x) for x in leaves], draw.normal(10, env.action_size, scale=0.1))


@program(GROUP)
def double_pendulum(draw: Draw) -> Made:
    n, steps = draw.size(1, 64), draw.size(100, 500)

    def f(state: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            a, b, p, q = s
            d = a - b
            c, sn = jnp.cos(d), jnp.sin(d)
            w = 2 - c * c
            u = (-sn * (p * p * c + q * q) - 9.8 * (2 * jnp.sin(a) - c * jnp.sin(b))) / w
            v = (sn * (2 * p * p + q * q * c) + 19.6 * (c * jnp.sin(a) - jnp.sin(b))) / w
            h = 1e-3
            return (a + h * p, b + h * q, p + h * u, q + h * v), a

        return jax.lax.scan(step, tuple(state), None, length=steps)[1]

    return f, (draw.normal(4, n, scale=0.5),)


@program(GROUP)
def value_iteration(draw: Draw) -> Made:
    states, actions = draw.size(10, 60), draw.size(2, 6)

    def f(transition: Any, reward: Any) -> Any:
        def step(carry: Any) -> Any:
            v, _, i = carry
            better = (reward + 0.9 * transition @ v).max(-1)
            return better, jnp.abs(better - v).max(), i + 1

        start = (jnp.zeros(states), jnp.float32(jnp.inf), 0)
        return jax.lax.while_loop(lambda c: (c[1] > 1e-4) & (c[2] < 200), step, start)[0]

    transition = draw.uniform(states, actions, states)
    return f, (transition / transition.sum(-1, keepdims=True), draw.normal(states, actions))


@program(GROUP)
def cart_pole_policy(draw: Draw) -> Made:
    batch, hidden, steps = draw.size(1, 32), draw.size(8, 64), draw.size(50, 200)

    def f(state: Any, v: Any, w: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            force = jnp.where(jnp.tanh(s @ v) @ w > 0, 10.0, -10.0)[:, 0]
            x, speed, angle, turn = s.T
            c, sn = jnp.cos(angle), jnp.sin(angle)
            t = (force + 0.05 * turn**2 * sn) / 1.1
            u = (9.8 * sn - c * t) / (0.5 * (4 / 3 - 0.1 * c**2 / 1.1))
            a = t - 0.05 * u * c / 1.1
            new = jnp.stack([x + 0.02 * speed, speed + 0.02 * a, angle + 0.02 * turn, turn + 0.02 * u], -1)
            done = jnp.abs(new[:, 2]) > 0.2
            return jnp.where(done[:, None], jnp.zeros_like(new), new), (~done).sum()

        return jax.lax.scan(step, state, None, length=steps)[1]

    return f, (draw.normal(batch, 4, scale=0.05), draw.normal(4, hidden), draw.normal(hidden, 1))


@program(GROUP)
def edit_distance(draw: Draw) -> Made:
    n, m = draw.size(20, 200), draw.size(20, 200)

    def f(a: Any, b: Any) -> Any:
        def row(previous: Any, letter: Any) -> Any:
            def cell(left: Any, inputs: Any) -> Any:
                up, corner, other = inputs
                best = jnp.minimum(jnp.minimum(left, up) + 1, corner + (letter != other))
                return best, best

            first = previous[0] + 1
            rest = jax.lax.scan(cell, first, (previous[1:], previous[:-1], b))[1]
            return jnp.concatenate([first[None], rest]), None

        return jax.lax.scan(row, jnp.arange(m + 1), a)[0]

    return f, (draw.integers(4, n), draw.integers(4, m))


@program(GROUP)
def viterbi(draw: Draw) -> Made:
    states, steps = draw.size(4, 40), draw.size(50, 500)

    def f(move: Any, seen: Any) -> Any:
        def step(score: Any, x: Any) -> Any:
            all_scores = score[:, None] + move
            return all_scores.max(0) + x, all_scores.argmax(0)

        last, back = jax.lax.scan(step, seen[0], seen[1:])
        path = jax.lax.scan(lambda at, b: (b[at], at), last.argmax(), back, reverse=True)[1]
        return last, path

    return f, (draw.normal(states, states), draw.normal(steps, states))


@program(GROUP)
def recurrent_net(draw: Draw) -> Made:
    d, steps, batch = draw.size(8, 64, 4), draw.size(20, 200), draw.size(1, 16)

    def f(w: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, g, o, r = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, -1)
            c = jax.nn.sigmoid(r + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((batch, d))
        return jax.lax.scan(step, (zero, zero), xs)[1]

    return f, (draw.normal(2 * d, 4 * d, scale=d**-0.5), draw.normal(steps, batch, d))


@program(GROUP)
def recurrent_net_gradient(draw: Draw) -> Made:
    d, steps = draw.size(8, 48, 4), draw.size(20, 100)

    def loss(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(w @ h + x)
            return h, h.sum()

        return jax.lax.scan(step, jnp.zeros(d), xs)[1].mean()

    return jax.value_and_grad(loss), (draw.normal(d, d, scale=d**-0.5), draw.normal(steps, d))


@program(GROUP)
def collatz(draw: Draw) -> Made:
    def f(n: Any) -> Any:
        def count(n: Any) -> Any:
            def step(c: Any) -> Any:
                n, k = c
                return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1

            return jax.lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]

        return jax.lax.map(count, n)

    return f, (draw.integers(2000, draw.size(20, 200)) + 1,)


@program(GROUP)
def game_of_life(draw: Draw) -> Made:
    n, steps = draw.size(8, 64), draw.size(20, 100)

    def f(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            near = sum(
                jnp.roll(jnp.roll(x, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
            )
            return ((near == 3) | ((x == 1) & (near == 2))).astype(jnp.int32)

        return jax.lax.fori_loop(0, steps, step, x)

    return f, (draw.integers(2, n, n),)


@program(GROUP, needs="optax")
def optax_fit(draw: Draw) -> Made:
    import optax

    n, d = draw.size(20, 200), draw.size(2, 20)

    def f(x: Any, y: Any, w: Any) -> Any:
        rule = optax.adam(1e-2)

        def step(carry: Any, _: Any) -> Any:
            w, state = carry
            value, slope = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w) - y) ** 2).mean())(w)
            change, state = rule.update(slope, state, w)
            return (optax.apply_updates(w, change), state), value

        return jax.lax.scan(step, (w, rule.init(w)), None, length=100)[1]

    return f, (draw.normal(n, d), draw.normal(n), draw.normal(d))


@program(GROUP, needs="equinox")
def equinox_neural_ode(draw: Draw) -> Made:
    import equinox as eqx

    d, batch = draw.size(2, 8), draw.size(1, 32)
    net = eqx.nn.MLP(d, d, 32, 2, key=jax.random.PRNGKey(0))
    weights, rest = eqx.partition(net, eqx.is_array)

    def f(weights: Any, y: Any) -> Any:
        slope = jax.vmap(eqx.combine(weights, rest))

        def step(y: Any, _: Any) -> Any:
            return y + 0.01 * slope(y + 0.005 * slope(y)), None

        return jax.lax.scan(step, y, None, length=100)[0]

    return f, (weights, draw.normal(batch, d))


@program(GROUP)
def levenberg_marquardt(draw: Draw) -> Made:
    n = draw.size(10, 100)

    def f(t: Any, y: Any, start: Any) -> Any:
        def residual(p: Any) -> Any:
            return p[0] * jnp.exp(-p[1] * t) + p[2] - y

        def step(_: Any, p: Any) -> Any:
            j, r = jax.jacfwd(residual)(p), residual(p)
            return p - jnp.linalg.solve(j.T @ j + 0.1 * jnp.eye(3), j.T @ r)

        return jax.lax.fori_loop(0, 30, step, start)

    t = np.linspace(0, 3, n, dtype=np.float32)
    return f, (t, 2 * np.exp(-1.3 * t) + draw.normal(n, scale=0.01), np.array([1, 1, 0], np.float32))


@program(GROUP)
def tree_search(draw: Draw) -> Made:
    nodes, picks = draw.size(32, 256), draw.size(50, 300)

    def f(prior: Any, reward: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            visits, total = state

            def down(at: Any) -> Any:
                child = jnp.array([2 * at + 1, 2 * at + 2])
                bound = total[child] / (visits[child] + 1) + prior[child] * jnp.sqrt(visits[at] + 1) / (
                    visits[child] + 1
                )
                return child[jnp.argmax(bound)]

            leaf = jax.lax.while_loop(lambda at: 2 * at + 2 < nodes, down, 0)

            def up(carry: Any) -> Any:
                at, visits, total = carry
                return (at - 1) // 2, visits.at[at].add(1), total.at[at].add(reward[leaf])

            _, visits, total = jax.lax.while_loop(lambda c: c[0] > 0, up, (leaf, visits, total))
            return visits.at[0].add(1), total

        return jax.lax.fori_loop(0, picks, step, (jnp.zeros(nodes), jnp.zeros(nodes)))

    return f, (draw.uniform(nodes), draw.uniform(nodes))
