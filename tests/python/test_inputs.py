"""What `--inputs`, `--save-inputs` and `--constants` take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hlorun
from hlorun import _inputs
from hlorun.cli import app

TWO = "HloModule m\nENTRY e {\n  a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n  ROOT s = f32[3] add(a, b)\n}\n"
ELIDED = (
    "HloModule m\nENTRY e {\n  a = f32[30] parameter(0)\n  c = f32[30] constant({...})\n"
    "  d = s32[20] constant({...})\n  s = f32[30] add(a, c)\n  ROOT t = (f32[30], s32[20]) tuple(s, d)\n}\n"
)


def output(*arguments: str) -> tuple[int, str]:
    shown = CliRunner().invoke(app, list(arguments))
    return shown.exit_code, " ".join(shown.output.split())


def test_some_inputs_are_given_and_the_rest_is_random(tmp_path: Path) -> None:
    module = hlorun.parse(TWO)
    random = _inputs.random_inputs(module, 3)
    np.savez(tmp_path / "b.npz", b=np.ones(3, np.float32))
    values, text = _inputs.describe_inputs(module, f"{tmp_path / 'b.npz'},random", 3)
    np.testing.assert_array_equal(values[0], random[0])
    np.testing.assert_array_equal(values[1], 1)
    assert "the rest random" in text
    with pytest.raises(hlorun.HloArgumentError, match="no array for parameter 0"):
        _inputs.describe_inputs(module, str(tmp_path / "b.npz"), 3)
    np.savez(tmp_path / "x.npz", x=np.ones(3, np.float32))
    with pytest.raises(hlorun.HloArgumentError, match="no parameter x"):
        _inputs.describe_inputs(module, f"{tmp_path / 'x.npz'},zeros", 3)
    made = hlorun.make_inputs(module, 3, given={"b": 2})
    np.testing.assert_array_equal(made[0], random[0])
    assert made[1] == 2
    with pytest.raises(hlorun.HloArgumentError, match="no parameter z"):
        hlorun.make_inputs(module, given={"z": 2})


def test_one_array_is_for_one_parameter(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3, dtype=np.float32))
    one = hlorun.parse("HloModule m\nENTRY e { ROOT a = f32[3] parameter(0) }")
    values, _ = _inputs.describe_inputs(one, str(tmp_path / "a.npy"), 0)
    np.testing.assert_array_equal(values[0], [0, 1, 2])
    with pytest.raises(hlorun.HloArgumentError, match="2 parameters"):
        _inputs.describe_inputs(hlorun.parse(TWO), str(tmp_path / "a.npy"), 0)


def test_saved_inputs_run_again(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(TWO)
    # A file is called as it was asked for, also without a suffix.
    dump, saved = str(tmp_path / "m.hlo"), str(tmp_path / "in")
    first = output("run", dump, "--seed", "5", "--save-inputs", saved, "--out", str(tmp_path / "1.npz"))
    second = output("run", dump, "--inputs", saved, "--out", str(tmp_path / "2"))
    assert first[0] == second[0] == 0
    code, text = output("run", dump, "--out", str(tmp_path))
    assert code == 1 and "Is a directory" in text
    with np.load(tmp_path / "1.npz") as one, np.load(tmp_path / "2") as two:
        assert one["output_0"].tobytes() == two["output_0"].tobytes()


@pytest.mark.parametrize("option", ["--inputs", "--constants"])
def test_an_unknown_word_names_the_words(tmp_path: Path, option: str) -> None:
    (tmp_path / "m.hlo").write_text(ELIDED)
    more = [] if option == "--constants" else ["--constants", "zeros"]
    code, text = output("run", str(tmp_path / "m.hlo"), *more, option, "ones")
    assert code == 2
    assert "'ones' is no word for" in text and "random, zeros" in text
    code, text = output("run", str(tmp_path / "m.hlo"), *more, option, "absent.npz")
    assert code == 1 and "absent.npz" in text


def test_elided_constants_are_listed_once_and_given(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(ELIDED)
    dump, out = str(tmp_path / "m.hlo"), tmp_path / "out.npz"
    code, text = output("run", dump)
    assert code == 1
    assert "2 constants without values in the text (c f32[30]" in text and "--constants random" in text
    code, text = output("run", dump, "--constants", "zeros", "--inputs", "zeros", "--out", str(out))
    assert code == 0 and text.count("2 constants without values") == 1
    with np.load(out) as file:
        assert not file["output_0"].any() and not file["output_1"].any()
    given: dict[str, Any] = {"c": np.full(30, 2, np.float32), "d": np.arange(20, dtype=np.int32)}
    np.savez(tmp_path / "c.npz", **given)
    code, _ = output(
        "run", dump, "--constants", str(tmp_path / "c.npz"), "--inputs", "zeros", "--out", str(out)
    )
    assert code == 0
    with np.load(out) as file:
        np.testing.assert_array_equal(file["output_0"], given["c"])
        np.testing.assert_array_equal(file["output_1"], given["d"])
    np.savez(tmp_path / "c.npz", c=given["c"])
    code, text = output("run", dump, "--constants", str(tmp_path / "c.npz"))
    assert code == 1 and "no array for the constants d" in text


def test_every_command_that_runs_takes_elided_constants(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(ELIDED)
    dump = str(tmp_path / "m.hlo")
    for command in (["nan", dump], ["compare", dump, dump], ["bisect", dump, "--against", dump]):
        code, text = output(*command)
        assert code == 1 and "give them with --constants random" in text, text
        code, text = output(*command, "--constants", "random")
        assert code == 0, text
    code, text = output("bisect", str(tmp_path), "--constants", "random")
    assert code == 2 and "--xla_dump_large_constants" in text


def test_random_constants_of_a_name_are_the_same_in_two_modules() -> None:
    values, _ = _inputs.describe_constants(hlorun.parse(ELIDED), "random", 3)
    swapped = ELIDED.replace("  c = f32[30] constant({...})\n", "").replace(
        "  s =", "  c = f32[30] constant({...})\n  s ="
    )
    others, _ = _inputs.describe_constants(hlorun.parse(swapped), "random", 3)
    assert list(values) != list(others)
    for name, value in values.items():
        np.testing.assert_array_equal(value, others[name])


def test_a_module_gets_constants() -> None:
    module = hlorun.parse(ELIDED)
    with pytest.raises(hlorun.HloUnsupportedError, match=r"with_constants\("):
        hlorun.run(module, np.zeros(30, np.float32))
    whole = module.with_constants({"c": np.ones(30, np.float32), "d": np.zeros(20, np.int32)})
    s, d = hlorun.run(whole, np.zeros(30, np.float32))
    assert (s == 1).all() and (d == 0).all()
    assert module["c"].literal is None
    with pytest.raises(hlorun.HloArgumentError, match="no array constant called a"):
        module.with_constants({"a": np.ones(30, np.float32)})
    with pytest.raises(hlorun.HloArgumentError, match="constant c"):
        module.with_constants({"c": np.ones(3, np.float32)})


def test_a_module_is_a_collection_of_computations() -> None:
    module = hlorun.parse(ELIDED)
    assert len(module) == 1
    assert [c.name for c in module] == ["e"]
    assert "c" in module and "absent" not in module
    assert [i.name for i in module.instructions] == ["a", "c", "d", "s", "t"]
    assert [i.name for i in module.find(opcode="constant")] == ["c", "d"]
    assert module.find(opcode="dot") == ()


def test_a_word_for_constants_is_looked_at_where_none_is_elided(tmp_path: Path) -> None:
    dump = tmp_path / "two.hlo"
    dump.write_text(TWO)
    code, text = output("run", str(dump), "--constants", "rendom")
    assert code == 2 and "'rendom' is no word for constants" in text and "did you mean random?" in text
