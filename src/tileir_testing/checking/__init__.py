"""Checks of passes: a program and what a pass makes of it are run on numbers that are added up exactly."""
