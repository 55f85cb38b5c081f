"""The compiler on one page, and what calls it."""
