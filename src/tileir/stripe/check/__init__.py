"""What a legal Stripe program is."""
