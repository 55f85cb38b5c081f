"""The search for the fastest pipeline, and its memory."""
