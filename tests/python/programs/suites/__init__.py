"""One module per sort of program; each has a `suite`."""
