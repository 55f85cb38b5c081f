"""Parts that operations share: arguments and layouts, windows, positions, and the writing of bodies."""
