"""Legality of Stripe programs."""
