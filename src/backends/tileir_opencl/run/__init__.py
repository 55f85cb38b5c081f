"""Programs built and run by the drivers."""
