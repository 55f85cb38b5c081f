"""Use that lasts: each module has one kind, as functions of how much of it, for small tests and for runs of hours."""
