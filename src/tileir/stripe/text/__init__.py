"""Stripe as text, and back."""
