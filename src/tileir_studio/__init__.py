"""The studio: a page in the browser that shows what the compiler does, and a server for it on this machine only."""
