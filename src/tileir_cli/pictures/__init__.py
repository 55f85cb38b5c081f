"""Pictures in files, read and written as arrays."""
