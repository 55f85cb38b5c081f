"""What is kept of earlier compilations: programs in memory, and code on disk under digests of what made it."""
