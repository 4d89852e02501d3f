"""The theory laboratory: what is claimed of MIFA, as formulas and as experiments."""
