"""Transformations of Stripe programs, and the pipelines made of them."""
