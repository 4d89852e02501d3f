"""How many clients are trained: one after the other, or many at once."""
