"""The Python process around a compiler: garbage, forks, tracebacks, and cancelled work."""
