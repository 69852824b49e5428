"""Cases of collectives and what XLA:CPU gives for them."""
