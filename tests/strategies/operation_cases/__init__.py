"""Cases of the operation library: one file for each family, with a tuple ``CASES``."""
