"""Placement of memory in the banks of a device, and copies between them."""
