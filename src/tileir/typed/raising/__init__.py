"""From typed functions back to the Tile language."""
