"""Devices and the capabilities of their drivers."""
