"""One module per family of operations, each with `cases()`."""
