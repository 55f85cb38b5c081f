"""Lowering of typed functions to Stripe programs."""
