"""The server of the page, its workers, and who may talk to them."""
