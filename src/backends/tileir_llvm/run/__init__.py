"""Machine code made, loaded and run, by threads that stay."""
