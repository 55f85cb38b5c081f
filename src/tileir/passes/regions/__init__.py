"""Partition of index spaces into regions: interior and border, full and partial tiles, strips."""
