"""The Python process around a compiler: garbage, forks, tracebacks, and work that is given up."""
