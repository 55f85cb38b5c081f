"""Stripe: nested blocks of parallel index points over views of tensors."""
