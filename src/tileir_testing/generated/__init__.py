"""Random programs, each determined by a seed and a number."""
