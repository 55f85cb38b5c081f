"""From typed functions to Stripe programs."""
