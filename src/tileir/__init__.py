"""Tensor programs as immutable data: the Tile language, the Stripe IR, the semtree, and back ends as plug-ins."""
