"""Signals: spectra, windows and mel filters."""
