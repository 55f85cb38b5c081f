"""Meaning of Stripe programs: the interpreter."""
