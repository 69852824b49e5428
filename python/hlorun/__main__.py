"""The `hlorun` command, also as `python -m hlorun`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say what it is missing."""
    # Embedding hlorun needs neither, so they come with an extra.
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        sys.exit(f"error: the command line needs {' and '.join(missing)}: pip install 'hlorun[cli]'")
    from hlorun.cli import main as run

    run()


if __name__ == "__main__":
    main()
