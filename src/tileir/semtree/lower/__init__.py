"""Lowering of Stripe to the semtree."""
