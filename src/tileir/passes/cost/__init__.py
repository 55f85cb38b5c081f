"""Cost as all models of it speak of it: machines, figures, and kinds and weights of operations."""
