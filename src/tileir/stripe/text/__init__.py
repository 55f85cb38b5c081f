"""Text form of Stripe: printer and parser."""
