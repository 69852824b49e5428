"""while, conditional, call, async pairs, fusion, tuples, barriers, tokens and domain markers."""

from __future__ import annotations

from collections.abc import Iterator

import cases as c
import numpy as np
from cases import ALL, Case


def whiles() -> Iterator[Case]:
    """Counted, data-dependent, never entered, nested, and with state of many types."""
    state = "(s32[], f32[4], pred[])"
    condition = c.computation(
        "cond",
        f"t = {state} parameter(0)\ni = s32[] get-tuple-element(t), index=0\nk = s32[] constant(5)\n"
        "z = pred[] compare(i, k), direction=LT",
    )
    body = c.computation(
        "step",
        f"t = {state} parameter(0)\ni = s32[] get-tuple-element(t), index=0\n"
        "x = f32[4] get-tuple-element(t), index=1\nb = pred[] get-tuple-element(t), index=2\n"
        "o = s32[] constant(1)\nj = s32[] add(i, o)\nf = f32[] convert(j)\ng = f32[4] broadcast(f), dimensions={}\n"
        f"y = f32[4] add(x, g)\nn = pred[] not(b)\nr = {state} tuple(j, y, n)",
    )
    for first in (0, 3, 5, 9):
        text = c.module(
            f"p = f32[4] parameter(0)\ni = s32[] parameter(1)\nb = pred[] constant(true)\n"
            f"t = {state} tuple(i, p, b)\nr = {state} while(t), condition=cond, body=step",
            condition,
            body,
        )
        inputs = [c.random("f32", (4,), "while"), np.asarray(first, np.int32)]
        yield Case(f"while-from-{first}", "while", "f32", text, inputs)
    for dtype in ("s32", "u8", "s64", "f32", "f64", "bf16"):
        s = c.sh(dtype)
        text = c.module(
            f"p = {s} parameter(0)\nr = {s} while(p), condition=cond, body=step",
            c.computation(
                "cond", f"x = {s} parameter(0)\nk = {s} constant(100)\nz = pred[] compare(x, k), direction=LT"
            ),
            c.computation("step", f"x = {s} parameter(0)\ny = {s} add(x, x)"),
        )
        yield Case(f"while-scalar-{dtype}", "while", dtype, text, [np.asarray(3).astype(c.np_dtype(dtype))])
    # Collatz: how often depends on the data.
    s = "(s64[], s64[])"
    get = f"t = {s} parameter(0)\nx = s64[] get-tuple-element(t), index=0\nn = s64[] get-tuple-element(t), index=1\n"
    text = c.module(
        f"p = s64[] parameter(0)\nz = s64[] constant(0)\nt = {s} tuple(p, z)\n"
        f"w = {s} while(t), condition=cond, body=step\nr = s64[] get-tuple-element(w), index=1",
        c.computation("cond", get + "o = s64[] constant(1)\nz = pred[] compare(x, o), direction=NE"),
        c.computation(
            "step",
            get + "o = s64[] constant(1)\nd = s64[] constant(2)\nm = s64[] remainder(x, d)\n"
            "k = s64[] constant(3)\nodd = pred[] compare(m, o), direction=EQ\nh = s64[] divide(x, d)\n"
            "a = s64[] multiply(x, k)\nb = s64[] add(a, o)\ny = s64[] select(odd, b, h)\nq = s64[] add(n, o)\n"
            f"r = {s} tuple(y, q)",
        ),
    )
    for first in (1, 6, 27, 97):
        yield Case(f"while-collatz-{first}", "while", "s64", text, [np.asarray(first, np.int64)])
    yield from nested_whiles()


def nested_whiles() -> Iterator[Case]:
    """A loop in a loop; a swap, where the body passes its state through in another order; a growing array in place."""
    s = "(s32[], s32[])"
    get = f"t = {s} parameter(0)\ni = s32[] get-tuple-element(t), index=0\nx = s32[] get-tuple-element(t), index=1\n"
    test = "k = s32[] constant({})\nz = pred[] compare(i, k), direction=LT"
    text = c.module(
        f"p = s32[] parameter(0)\nz = s32[] constant(0)\nt = {s} tuple(z, p)\n"
        f"r = {s} while(t), condition=cond_outer, body=outer",
        c.computation("cond_inner", get + test.format(3)),
        c.computation(
            "inner",
            get + f"o = s32[] constant(1)\nj = s32[] add(i, o)\ny = s32[] add(x, j)\nr = {s} tuple(j, y)",
        ),
        c.computation("cond_outer", get + test.format(4)),
        c.computation(
            "outer",
            get + f"o = s32[] constant(1)\nz = s32[] constant(0)\nj = s32[] add(i, o)\nu = {s} tuple(z, x)\n"
            f"w = {s} while(u), condition=cond_inner, body=inner\ny = s32[] get-tuple-element(w), index=1\n"
            f"r = {s} tuple(j, y)",
        ),
    )
    yield Case("while-nested", "while", "s32", text, [np.asarray(7, np.int32)])
    s = "(s32[], f32[3], f32[3])"
    get = f"t = {s} parameter(0)\ni = s32[] get-tuple-element(t), index=0\n"
    for n in (0, 1, 2, 3):
        text = c.module(
            f"p = f32[3] parameter(0)\nq = f32[3] parameter(1)\nz = s32[] constant(0)\nt = {s} tuple(z, p, q)\n"
            f"r = {s} while(t), condition=cond, body=step",
            c.computation("cond", get + test.format(n)),
            c.computation(
                "step",
                get + "x = f32[3] get-tuple-element(t), index=1\ny = f32[3] get-tuple-element(t), index=2\n"
                f"o = s32[] constant(1)\nj = s32[] add(i, o)\nr = {s} tuple(j, y, x)",
            ),
        )
        inputs = [c.random("f32", (3,), "swap", 1), c.random("f32", (3,), "swap", 2)]
        yield Case(f"while-swap-{n}", "while", "f32", text, inputs)
    s = "(s32[], f32[6,2])"
    get = f"t = {s} parameter(0)\ni = s32[] get-tuple-element(t), index=0\nx = f32[6,2] get-tuple-element(t), index=1\n"
    text = c.module(
        f"p = f32[6,2] parameter(0)\nz = s32[] constant(1)\nt = {s} tuple(z, p)\n"
        f"r = {s} while(t), condition=cond, body=step",
        c.computation("cond", get + test.format(6)),
        c.computation(
            "step",
            get + "o = s32[] constant(1)\nz = s32[] constant(0)\nb = s32[] subtract(i, o)\n"
            "a = f32[1,2] dynamic-slice(x, b, z), dynamic_slice_sizes={1,2}\n"
            "e = f32[1,2] dynamic-slice(x, i, z), dynamic_slice_sizes={1,2}\nu = f32[1,2] add(a, e)\n"
            f"y = f32[6,2] dynamic-update-slice(x, u, i, z)\nj = s32[] add(i, o)\nr = {s} tuple(j, y)",
        ),
    )
    yield Case("while-in-place", "while", "f32", text, [c.random("f32", (6, 2), "place")])


def conditionals() -> Iterator[Case]:
    """Of a predicate and of a branch index, which is clamped to the last branch."""
    one = c.computation("one", "x = f32[3] parameter(0)\ny = f32[3] negate(x)")
    two = c.computation("two", "x = f32[3] parameter(0)\ny = f32[3] multiply(x, x)")
    three = c.computation(
        "three", "x = f32[2] parameter(0)\na = f32[] constant(9)\ny = f32[3] broadcast(a), dimensions={}"
    )
    inputs = [c.random("f32", (3,), 1), c.random("f32", (3,), 2)]
    for value in (True, False):
        text = c.module(
            "t = pred[] parameter(0)\np = f32[3] parameter(1)\nq = f32[3] parameter(2)\n"
            "r = f32[3] conditional(t, p, q), true_computation=one, false_computation=two",
            one,
            two,
        )
        yield Case(f"conditional-pred-{value}", "conditional", "f32", text, [np.asarray(value), *inputs])
    for index in (0, 1, 2, 3, -1, 1000, -2147483648):
        text = c.module(
            "t = s32[] parameter(0)\np = f32[3] parameter(1)\nq = f32[3] parameter(2)\nw = f32[2] constant({1, 2})\n"
            "r = f32[3] conditional(t, p, q, w), branch_computations={one, two, three}",
            one,
            two,
            three,
        )
        yield Case(
            f"conditional-index-{index}", "conditional", "f32", text, [np.asarray(index, np.int32), *inputs]
        )
    s = "(f32[3], s32[])"
    for value in (True, False):
        text = c.module(
            f"t = pred[] parameter(0)\np = f32[3] parameter(1)\nk = s32[] constant(4)\nu = {s} tuple(p, k)\n"
            f"w = {s} conditional(t, u, u), true_computation=one, false_computation=two\n"
            "x = f32[3] get-tuple-element(w), index=0\nr = f32[3] add(x, p)",
            c.computation("one", f"t = {s} parameter(0)"),
            c.computation(
                "two",
                f"t = {s} parameter(0)\nx = f32[3] get-tuple-element(t), index=0\ny = f32[3] negate(x)\n"
                f"k = s32[] get-tuple-element(t), index=1\nz = {s} tuple(y, k)",
            ),
        )
        yield Case(f"conditional-tuple-{value}", "conditional", "f32", text, [np.asarray(value), inputs[0]])


def calls() -> Iterator[Case]:
    """call, fusion of every kind and nesting, async pairs around computations."""
    inner = c.computation("inner", "x = f32[2,3] parameter(0)\ny = f32[2,3] multiply(x, x)")
    outer = c.computation(
        "outer",
        "x = f32[2,3] parameter(0)\ny = f32[2,3] parameter(1)\na = f32[2,3] call(x), to_apply=inner\n"
        "z = f32[2,3] subtract(a, y)",
    )
    fused = outer.replace("call(x), to_apply", "fusion(x), kind=kLoop, calls")
    s = "p = f32[2,3] parameter(0)\nq = f32[2,3] parameter(1)\n"
    inputs = [c.random("f32", (2, 3), 1), c.random("f32", (2, 3), 2)]
    plain = c.module(s + "r = f32[2,3] call(p, q), to_apply=outer", inner, outer)
    # Products and differences may be contracted there.
    near = c.Tolerance(rel=1e-6)
    yield Case("call-nested", "call", "f32", plain, inputs, near)
    for kind in ("kLoop", "kInput", "kOutput", "kCustom"):
        text = c.module(
            s + f"r = f32[2,3] fusion(p, q), kind={kind}, calls=outer",
            inner,
            fused,
        )
        yield Case(f"fusion-{kind}", "fusion", "f32", text, inputs, near, oracle_text=plain)
    pair = "(f32[2,3], pred[2,3])"
    many = c.computation(
        "many",
        "x = f32[2,3] parameter(0)\ny = f32[2,3] parameter(1)\ng = pred[2,3] compare(x, y), direction=GT\n"
        f"z = f32[2,3] select(g, x, y)\nt = {pair} tuple(z, g)",
    )
    text = c.module(s + f"r = {pair} fusion(p, q), kind=kLoop, calls=many", many)
    yield Case(
        "fusion-several",
        "fusion",
        "f32",
        text,
        inputs,
        oracle_text=text.replace("fusion(p, q), kind=kLoop, calls", "call(p, q), to_apply"),
    )
    reduce = c.computation(
        "sums",
        "x = f32[2,3] parameter(0)\ny = f32[2,3] parameter(1)\nm = f32[2,3] multiply(x, y)\n"
        "k = f32[] constant(0)\nz = f32[2] reduce(m, k), dimensions={1}, to_apply=plus",
    )
    text = c.module(
        s + "r = f32[2] fusion(p, q), kind=kInput, calls=sums", c.combiner("plus", "add", "f32"), reduce
    )
    without = text.replace("fusion(p, q), kind=kInput, calls", "call(p, q), to_apply")
    yield Case("fusion-reduce", "fusion", "f32", text, inputs, c.sums("f32"), oracle_text=without)
    contract = c.computation(
        "contract",
        "x = f32[2,3] parameter(0)\ny = f32[2,3] parameter(1)\nu = f32[3,2] transpose(y), dimensions={1,0}\n"
        "z = f32[2,2] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    text = c.module(s + "r = f32[2,2] fusion(p, q), kind=kOutput, calls=contract", contract)
    without = text.replace("fusion(p, q), kind=kOutput, calls", "call(p, q), to_apply")
    yield Case("fusion-dot", "fusion", "f32", text, inputs, c.sums("f32"), oracle_text=without)
    for dtype in ALL:
        lines = (
            f"x = {c.sh(dtype, (5,))} parameter(0)\na = {c.sh(dtype, (5,))} reverse(x), dimensions={{0}}\n"
        )
        body = c.computation("body", lines + f"z = {c.sh(dtype, (3,))} slice(a), slice={{[1:4]}}")
        entry = f"p = {c.sh(dtype, (5,))} parameter(0)\nr = {c.sh(dtype, (3,))} "
        text = c.module(entry + "fusion(p), kind=kLoop, calls=body", body)
        other = c.module(entry + "call(p), to_apply=body", body)
        yield Case(
            f"fusion-{dtype}", "fusion", dtype, text, [c.shaped(dtype, (5,), "fusion")], oracle_text=other
        )
    yield from asyncs()


def asyncs() -> Iterator[Case]:
    """The pairs in all spellings: wrapped computations, sugar, updates; copy-start."""
    p = "p = f32[4] parameter(0)\n"
    work = c.computation("work", "x = f32[4] parameter(0)\ny = f32[4] exponential(x)")
    plain = c.module(p + "r = f32[4] exponential(p)")
    x = [c.random("f32", (4,), "async")]
    close = c.Tolerance(ulps=4)
    state = "((f32[4]), f32[4], s32[])"
    forms = {
        "calls": p + f"s = {state} async-start(p), calls=work\nr = f32[4] async-done(s)",
        "done-calls": p + f"s = {state} async-start(p), calls=work\nr = f32[4] async-done(s), calls=work",
        "update": p
        + f"s = {state} async-start(p), calls=work\nu = {state} async-update(s)\nr = f32[4] async-done(u)",
        "thread": p + f's = {state} async-start(p), async_execution_thread="parallel", calls=work\n'
        "r = f32[4] async-done(s)",
    }
    for label, text in forms.items():
        full = c.module(
            text, work.replace("}\n", '}, execution_thread="parallel"\n') if label == "thread" else work
        )
        yield Case(f"async-{label}", "async-start", "f32", full, x, close, plain)
    sugar = c.module(p + f"s = {state} exponential-start(p)\nr = f32[4] exponential-done(s)")
    yield Case("async-sugar", "async-start", "f32", sugar, x, close, plain)
    same = c.module(p + "r = f32[4] copy(p)")
    text = c.module(p + "s = (f32[4], f32[4], u32[]) copy-start(p)\nr = f32[4] copy-done(s)")
    yield Case("copy-start", "copy-start", "f32", text, x, oracle_text=same)
    text = c.module(
        p + "s = ((f32[4]), f32[2], s32[]) slice-start(p), slice={[1:3]}\nr = f32[2] slice-done(s)"
    )
    cut = c.module(p + "r = f32[2] slice(p), slice={[1:3]}")
    yield Case("async-slice", "async-start", "f32", text, x, oracle_text=cut)


def tuples() -> Iterator[Case]:
    """tuple, get-tuple-element, nested; opt-barrier; tokens; add-dependency; domain."""
    p = "p = f32[3] parameter(0)\nq = s32[] parameter(1)\n"
    inputs = [c.random("f32", (3,), "tuple"), np.asarray(5, np.int32)]
    nest = "((f32[3], s32[]), (), (f32[3]))"
    flat = c.module(p + "r = (f32[3], s32[], f32[3]) tuple(p, q, p)")
    text = c.module(
        p
        + f"a = (f32[3], s32[]) tuple(p, q)\nb = () tuple()\nd = (f32[3]) tuple(p)\nr = {nest} tuple(a, b, d)"
    )
    yield Case("tuple-nested", "tuple", "f32", text, inputs, oracle_text=flat)
    text = c.module(
        p
        + f"a = (f32[3], s32[]) tuple(p, q)\nb = () tuple()\nd = (f32[3]) tuple(p)\nt = {nest} tuple(a, b, d)\n"
        "g = (f32[3], s32[]) get-tuple-element(t), index=0\nr = s32[] get-tuple-element(g), index=1"
    )
    yield Case(
        "get-tuple-element-nested",
        "get-tuple-element",
        "s32",
        text,
        inputs,
        reference=lambda _, q: q,
        prefer_reference=True,
    )
    text = c.module("r = () tuple()")
    yield Case("tuple-empty", "tuple", "f32", text, [], reference=lambda: (), prefer_reference=True)
    for dtype in ALL:
        s = c.sh(dtype, (4,))
        text = c.module(f"p = {s} parameter(0)\nr = {s} opt-barrier(p)")
        yield Case(f"opt-barrier-{dtype}", "opt-barrier", dtype, text, [c.shaped(dtype, (4,), "barrier")])
    text = c.module(
        p + "t = (f32[3], s32[]) tuple(p, q)\nb = (f32[3], s32[]) opt-barrier(t)\n"
        "x = f32[3] get-tuple-element(b), index=0\nr = f32[3] negate(x)"
    )
    yield Case("opt-barrier-tuple", "opt-barrier", "f32", text, inputs)
    text = c.module(
        p + "k1 = token[] after-all()\nk2 = token[] after-all()\nk = token[] after-all(k1, k2)\n"
        "x = f32[3] add-dependency(p, k)\nr = f32[3] negate(x)"
    )
    negated = c.module(p + "r = f32[3] negate(p)")
    yield Case("after-all", "after-all", "f32", text, inputs, oracle_text=negated)
    yield Case("add-dependency", "add-dependency", "f32", text, inputs, oracle_text=negated)
    text = c.module(
        p + 'd = f32[3] domain(p), domain={kind="sharding", entry={maximal device=0}, exit={replicated}}\n'
        "r = f32[3] negate(d)"
    )
    yield Case("domain", "domain", "f32", text, inputs, oracle_text=negated)


def tuple_selects() -> Iterator[Case]:
    """The opcode that select of tuples was; today's XLA has forgotten it."""
    for name, chosen in (("true", True), ("false", False)):
        text = c.module(
            "g = pred[] parameter(0)\na = f32[2,3] parameter(1)\nb = f32[2,3] parameter(2)\n"
            "m = s32[] constant(3)\nn = s32[] constant(-4)\nt = (f32[2,3], s32[]) tuple(a, m)\n"
            "u = (f32[2,3], s32[]) tuple(b, n)\nr = (f32[2,3], s32[]) tuple-select(g, t, u)"
        )
        inputs = [np.asarray(chosen), c.random("f32", (2, 3), "on"), c.random("f32", (2, 3), "off")]

        def run(g: c.Array, a: c.Array, b: c.Array) -> tuple[c.Array, c.Array]:
            return (a, np.asarray(3, np.int32)) if g else (b, np.asarray(-4, np.int32))

        yield Case(
            f"tuple-select-{name}", "tuple-select", "f32", text, inputs, reference=run, prefer_reference=True
        )


def nested_tuple_selects() -> Iterator[Case]:
    """Tuples in tuples, with a token among them."""
    inner = "(f32[3], token[])"
    text = c.module(
        "g = pred[] parameter(0)\na = f32[3] parameter(1)\nb = f32[3] parameter(2)\nk = token[] after-all()\n"
        f"m = s32[] constant(3)\nn = s32[] constant(-4)\nt = {inner} tuple(a, k)\nu = {inner} tuple(b, k)\n"
        f"v = (s32[], {inner}) tuple(m, t)\nw = (s32[], {inner}) tuple(n, u)\n"
        f"s = (s32[], {inner}) tuple-select(g, v, w)\no = {inner} get-tuple-element(s), index=1\n"
        "e = f32[3] get-tuple-element(o), index=0\nd = s32[] get-tuple-element(s), index=0\nr = (s32[], f32[3]) tuple(d, e)"
    )
    for chosen in (True, False):
        inputs = [np.asarray(chosen), c.random("f32", (3,), "on"), c.random("f32", (3,), "off")]

        def run(g: c.Array, a: c.Array, b: c.Array) -> tuple[c.Array, c.Array]:
            return (np.asarray(3, np.int32), a) if g else (np.asarray(-4, np.int32), b)

        name = f"tuple-select-nested-{chosen}"
        yield Case(name, "tuple-select", "f32", text, inputs, reference=run, prefer_reference=True)


def scans() -> Iterator[Case]:
    """The opcode of 2026: (x, carry) -> (y, carry) over one dimension; older jaxlib does not know it."""
    step = c.computation(
        "step",
        "x = f32[3] parameter(0)\nh = f32[3] parameter(1)\ny = f32[3] add(x, h)\nt = (f32[3], f32[3]) tuple(y, y)",
    )
    inputs = [c.random("f32", (5, 3), "scan"), c.random("f32", (3,), "carry")]
    for reverse in ("false", "true"):
        text = c.module(
            "p = f32[5,3] parameter(0)\nq = f32[3] parameter(1)\n"
            f"r = (f32[5,3], f32[3]) scan(p, q), dimensions={{0}}, is_reverse={reverse}, num_carries=1, to_apply=step",
            step,
        )

        def run(x: c.Array, h: c.Array, reverse: str = reverse) -> tuple[c.Array, c.Array]:
            y = np.zeros_like(x)
            for k in range(5)[:: -1 if reverse == "true" else 1]:
                h = y[k] = x[k] + h
            return y, h

        yield Case(f"scan-{reverse}", "scan", "f32", text, inputs, c.sums("f32"), reference=run)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from whiles()
    yield from conditionals()
    yield from calls()
    yield from tuples()
    yield from tuple_selects()
    yield from nested_tuple_selects()
    yield from scans()
