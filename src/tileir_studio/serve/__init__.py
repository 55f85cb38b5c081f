"""The server of the page, its workers, and its access control."""
