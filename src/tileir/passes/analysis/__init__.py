"""Facts about blocks that several passes ask for; nothing here rewrites."""
