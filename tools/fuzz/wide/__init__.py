"""Operations over all that their arguments may be, beside NumPy in extended precision: rows, oracles, closeness."""
