"""The designer: formulas, their results for pictures, and edits of them."""
