"""Formulas as text: parsing, printing, the bracket form, and the places of parts."""
