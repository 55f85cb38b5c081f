"""Devices, and what their drivers can do."""
