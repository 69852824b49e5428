"""What a shell and its user meet: completion, colours, folders, and names that are written wrongly."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hlorun.cli import app
from hlorun.report.units import seconds_text

TEXT = """HloModule one
square { x = f32[] parameter(0) ROOT y = f32[] multiply(x, x) }
ENTRY main { argument = f32[4] parameter(0) ROOT squares = f32[4] map(argument), dimensions={0}, to_apply=square }
"""


def hlorun(*arguments: str | Path, status: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == status, done.output
    # Boxes of wrong usage are broken into lines.
    return re.sub(r"[\s│]+", " ", done.output)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "one.hlo"
    path.write_text(TEXT)
    return path


COMPLETIONS = [
    ("hlorun exa", []),
    ("hlorun ext", ["extract"]),
    ("hlorun run --rep", ["--repeat", "--replicas"]),
    ("hlorun fmt --preset ca", ["canonical"]),
    ("hlorun cost --by op", ["op_name", "opcode"]),
    ("hlorun check --output-format s", ["sarif"]),
    ("hlorun run --inputs z", ["zeros"]),
    ("hlorun show one.hlo sq", ["square", "squares"]),
    ("hlorun extract one.hlo arg", ["argument"]),
    ("hlorun trace one.hlo --until squ", ["square", "squares"]),
    ("hlorun show absent.hlo sq", []),
    ("hlorun passes dumps j", ["jit_f"]),
    ("hlorun bisect dumps --module j", ["jit_f"]),
]


def dump_folder(folder: Path, *names: str) -> Path:
    """A folder as XLA names its files."""
    folder.mkdir()
    for number, name in enumerate(names):
        for stage in ("before_optimizations", "cpu_after_optimizations"):
            (folder / f"module_{number:04}.{name}.{stage}.txt").write_text(TEXT)
        (folder / f"module_{number:04}.{name}.thunk_sequence.txt").write_text("no HLO")
    return folder


@pytest.mark.parametrize(("line", "expected"), COMPLETIONS)
def test_completion_offers(
    line: str, expected: list[str], dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dump.parent)
    dump_folder(dump.parent / "dumps", "jit_f")
    environment = {
        "_HLORUN_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = CliRunner().invoke(app, [], prog_name="hlorun", env=environment)
    assert sorted(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes(shell: str, dump: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = f'"$(_HLORUN_COMPLETE=source_{shell} hlorun)"'
    codes = {
        "bash": f"eval {script}\nCOMP_WORDS=(hlorun show one.hlo sq); COMP_CWORD=3; _hlorun_completion hlorun\n"
        'printf "%s\\n" "${COMPREPLY[@]}"',
        # `_arguments` shows here what makes the menu.
        "zsh": f"autoload -Uz compinit; compinit -D; eval {script}\n_arguments() {{ print -r -- $1 }}\n"
        "words=(hlorun show one.hlo sq); CURRENT=4; _hlorun_completion",
        "fish": "_HLORUN_COMPLETE=source_fish hlorun | source; complete -C 'hlorun show one.hlo sq'",
    }
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": here, "HOME": str(dump.parent), "TERM": "dumb"}
    command = [program, *flags[shell], "-c", codes[shell]]
    done = subprocess.run(
        command, cwd=dump.parent, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert not done.stderr.strip(), done.stderr
    assert re.findall(r"\bsquares?\b", done.stdout) == ["square", "squares"], done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_by_its_command(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A shell may replace itself by its last command, and is then not there to be found.
    done = subprocess.run(
        [program, "-c", "hlorun --install-completion; echo"],
        env={**os.environ, "PATH": here, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"{shell} completion installed" in done.stdout, done.stdout + done.stderr
    written = [path.read_text() for path in tmp_path.rglob("*hlorun*") if path.is_file()]
    assert any(f"complete_{shell}" in text for text in written), written


def in_terminal(*arguments: str, **variables: str) -> str:
    """What a command prints on a terminal of its own."""
    master, slave = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "120", **variables}
    command = [sys.executable, "-m", "hlorun", *arguments]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        printed = b""
        try:
            while chunk := os.read(master, 1 << 16):
                printed += chunk
        except OSError:
            # Linux ends the other side of a terminal with EIO.
            pass
        os.close(master)
    assert process.returncode == 0, printed
    return printed.decode()


def test_colours_are_for_terminals(dump: Path) -> None:
    assert "\x1b[1;36m" in in_terminal("show", str(dump))
    assert "\x1b[1;36m" not in in_terminal("show", str(dump), NO_COLOR="1")
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    piped = subprocess.run(
        [sys.executable, "-m", "hlorun", "show", str(dump)],
        env={**environment, "TERM": "xterm-256color"},
        capture_output=True,
        check=True,
    )
    assert b"squares" in piped.stdout and b"\x1b" not in piped.stdout + piped.stderr


def test_wrong_names_are_answered_with_near_ones(dump: Path, tmp_path: Path) -> None:
    folder = dump_folder(tmp_path / "dumps", "jit_step", "jit_eval")
    assert "did you mean squares or square?" in hlorun("show", dump, "sqares", status=1)
    assert "did you mean squares or square?" in hlorun("extract", dump, "Squaress", status=1)
    assert "did you mean argument?" in hlorun("trace", dump, "--until", "arguments", status=1)
    assert "of the opcode multiply there is y" in hlorun("show", dump, "multiply", status=1)
    assert "of the opcode multiply there is y" in hlorun("show", dump, "mutliply", status=1)
    assert "did you mean" not in hlorun("show", dump, "zzzzzz", status=1)
    assert "did you mean simplify? there are" in hlorun("plan", dump, "--after", "simplfy", status=2)
    assert "did you mean jit_step or jit_eval?" in hlorun("passes", folder, "jit_stpe", status=1)
    assert "did you mean op_name?" in hlorun("cost", dump, "--by", "opname", status=2)
    assert "did you mean canonical?" in hlorun("fmt", dump, "--preset", "cannonical", status=2)
    assert "did you mean sarif?" in hlorun("check", dump, "--output-format", "sarf", status=2)
    assert "did you mean hlorun?" in hlorun("memory", dump, "--plan", "hlorum", status=2)
    assert "did you mean zeros?" in hlorun("run", dump, "--inputs", "zeroes", status=2)
    assert "did you mean one.hlo?" in hlorun("run", tmp_path / "on.hlo", status=1)
    assert "did you mean one.hlo?" in hlorun("check", tmp_path / "on.hlo", status=1)
    assert "Did you mean 'extract'" in hlorun("extrac", status=2)
    assert "--replicas" in hlorun("run", dump, "--replica", "1", status=2)


def test_folders_stand_for_their_files(dump: Path, tmp_path: Path) -> None:
    one = dump_folder(tmp_path / "one", "jit_f")
    last = "module_0000.jit_f.cpu_after_optimizations.txt"
    assert f"reading {last}" in hlorun("run", one)
    for command in (["cost"], ["fmt"], ["nan"], ["graph", "--dot", "-"], ["memory"], ["plan"]):
        hlorun(command[0], one, *command[1:])
    checked = hlorun("check", one)
    assert checked.count(": ok") == 2 and "thunk_sequence" not in checked
    assert hlorun("check", one, dump).count(": ok") == 3
    both = dump_folder(tmp_path / "both", "jit_f", "jit_g")
    refused = hlorun("run", both, status=1)
    assert "holds 2 modules" in refused and "module_0001.jit_g.cpu_after_optimizations.txt" in refused
    (tmp_path / "empty").mkdir()
    assert "no HLO in this folder" in hlorun("run", tmp_path / "empty", status=1)
    assert "no HLO in this folder" in hlorun("check", tmp_path / "empty", status=1)


def test_a_wrong_variable_is_one_line(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLORUN_CHECK", "yes")
    assert hlorun("run", dump, status=2).strip() == "error: HLORUN_CHECK is 0, 1 or shadow, not 'yes'"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (1.56e-11, "0.0156 ns"),
        (4e-7, "0.4 µs"),
        (9.996e-4, "1 ms"),
        (0.0123, "12.3 ms"),
        (0.9996, "1 s"),
        (1234.5, "1,234 s"),
    ],
)
def test_durations_have_no_exponents(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
