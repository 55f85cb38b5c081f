"""Index spaces cut in regions: interior and border, full and partial tiles, strips."""
