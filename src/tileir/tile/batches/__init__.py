"""How each statement of a function is computed for several examples at once."""
