"""Looks for what is wrong: NaN origins, differences of two modules, the pass or the instruction at fault."""
