"""Writes docs/cli.md from the commands' own help: `python docs/generate_cli.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer.main

from hlorun.cli import app

EXAMPLES = {
    "run": "hlorun run dump.txt --inputs inputs.npz --out outputs.npz --profile trace.json",
    "show": "hlorun show dump.txt fusion.3",
    "passes": "hlorun passes dumps/ jit_step",
    "plan": "hlorun plan dump.txt --after simplify",
    "cost": "hlorun cost dump.txt --top 20",
    "memory": "hlorun memory dump.txt --html memory.html",
    "trace": "hlorun trace dump.txt --until-nan",
    "nan": "hlorun nan dump.txt --inputs inputs.npz",
    "compare": "hlorun compare before.txt after.txt",
    "bisect": "hlorun bisect dumps/",
    "reduce": "hlorun reduce dump.txt --check 'my-compiler {}' --out small.hlo",
    "diff": "hlorun diff --run before.txt after.txt --rtol 1e-4",
    "check": "hlorun check dumps/*.txt",
    "fmt": "hlorun fmt dump.txt --preset canonical",
    "extract": "hlorun extract dump.txt fusion.3 --out part.txt",
    "graph": "hlorun graph dump.txt --html graph.html",
    "batch": "hlorun batch dumps/ --out tables",
    "smith": "hlorun smith --seed 7 --out random.txt",
    "mutate": "hlorun mutate dump.txt --seed 3 --out changed.txt",
}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _plain(text: str | None) -> str:
    """A help text without the backslashes that keep brackets from being markup."""
    return (text or "").strip().replace("\\[", "[")


def _option(parameter: Any) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    is_plain = isinstance(default, (str, int, float)) and not isinstance(default, bool)
    note = f" Default: `{default}`." if is_plain else ""
    return names, _plain(parameter.help) + note


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    words = ["hlorun", name, *(["[OPTIONS]"] if options else []), *(p.metavar or p.name for p in arguments)]
    usage = " ".join(words)
    lines = [f"## hlorun {name}", "", (command.help or "").strip(), "", "```", usage, "```", ""]
    rows = [(f"`{p.metavar or p.name}`", _plain(p.help)) for p in arguments]
    rows += map(_option, options)
    if rows:
        lines += ["| | |", "|---|---|", *(f"| {_cell(a)} | {_cell(b)} |" for a, b in rows), ""]
    if name in EXAMPLES:
        lines += ["Example:", "", "```", EXAMPLES[name], "```", ""]
    return "\n".join(lines)


def document() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    head = (
        "# The command line\n\n"
        "Exit status is 0 on success, 1 when something failed or differs, 2 for wrong usage. `DUMP` is HLO\n"
        "text, a proto or a snapshot, plain or packed with gzip or zstd; `-` for standard input; or a\n"
        "folder that holds one module. `--json` prints one JSON document on standard output.\n"
        "This page is made by `docs/generate_cli.py`.\n"
    )
    return "\n".join([head, *(_command(name, command) for name, command in group.commands.items())])


if __name__ == "__main__":
    Path(__file__).with_name("cli.md").write_text(document(), encoding="utf-8")
