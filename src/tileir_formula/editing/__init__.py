"""Edits of the text of a formula: by controls, and of its steps."""
