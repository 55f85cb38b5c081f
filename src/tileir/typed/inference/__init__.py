"""From what was written to dtypes and shapes."""
