"""The compiler on one page, and the command line."""
