"""The designer: formulas, what they make of pictures, and edits of them."""
