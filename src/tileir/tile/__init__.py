"""The Tile language: programs of users, with symbolic dimensions, and dtypes only in signatures."""
