"""From formulas to Tile: steps, borders, channels, groups, ranks, conditions and inputs."""
