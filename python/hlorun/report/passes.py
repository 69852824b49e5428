"""What each pass of a dumped compilation changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlorun._scan import DumpModule


def pass_table(module: DumpModule) -> list[dict[str, Any]]:
    """Facts of every stage of a module, in the order of the compilation.

    Args:
        module: Of `hlorun.scan`.

    Returns:
        A dictionary per stage: label, pipeline, instructions, fusions, computations, collectives, flops,
        bytes, fingerprint, and the error where the stage does not open or breaks rules of HLO.
    """
    return [_facts(stage) for stage in module.stages]


def _facts(stage: Any) -> dict[str, Any]:
    from hlorun._hlorun import HloModule
    from hlorun.errors import HloError

    label = stage.after or stage.name
    if stage.pass_number is not None:
        label = f"{stage.pass_number:04} {label}"
    facts: dict[str, Any] = {"label": label, "name": stage.name, "pipeline": stage.pipeline, "error": ""}
    try:
        module: HloModule = stage.load()
        module.verify()
        costs = module.cost_analysis()
    except (HloError, OSError) as error:
        return {**facts, "error": str(error)}
    opcodes = [instruction.opcode for instruction in module.instructions]
    return {
        **facts,
        "instructions": len(opcodes),
        "fusions": opcodes.count("fusion"),
        "computations": len(module),
        "collectives": sum(i.collective is not None for i in module.instructions),
        "flops": costs["flops"],
        "bytes": int(costs["bytes accessed"]),
        "fingerprint": module.fingerprint(),
    }
