"""The rules of Tile functions: what each name is, what a statement may hold, and what is worth a warning."""
