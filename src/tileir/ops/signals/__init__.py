"""Signals: spectra, windows and filters of time."""
