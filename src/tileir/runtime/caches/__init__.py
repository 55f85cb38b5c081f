"""Caches of earlier compilations: programs in memory, and code on disk under digests of everything that made it."""
