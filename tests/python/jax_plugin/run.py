"""Runs the cases of a file of this folder on hlorun as JAX's platform; `test_jax_plugin.py` asks for it.

  python tests/python/jax_plugin/run.py FILE

Prints a JSON object: for every function of FILE whose name begins with `case_`, None or how it failed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import traceback
import warnings
from pathlib import Path

import jax


def main() -> None:
    # Cases import what other tests do.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    spec = importlib.util.spec_from_file_location("cases", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = {}
    for name, case in vars(module).items():
        if not name.startswith("case_"):
            continue
        try:
            # What the case prints must not stand in the result.
            with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
                warnings.simplefilter("error")
                case()
                jax.effects_barrier()
            results[name] = None
        except BaseException:
            results[name] = traceback.format_exc()[-4000:]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
