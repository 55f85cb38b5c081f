"""Cost models: machines, figures, and kinds and weights of operations."""
