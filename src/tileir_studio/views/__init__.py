"""The explorer: a program at each of its stages, as the page shows it."""
