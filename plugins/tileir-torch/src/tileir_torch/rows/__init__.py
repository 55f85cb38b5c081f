"""Table of ATen operations, whose rows call functions of Tile's operation library."""
