"""Explanations: costs, dispatch, and the text of every stage."""
