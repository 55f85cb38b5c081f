"""The rules of Tile functions: the kinds of names, the contents of statements, and warnings."""
