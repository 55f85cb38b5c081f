"""The studio: a page in the browser on the work of the compiler, and a server for it on this machine only."""
