"""Schedules of contractions with register tiles."""
