"""What a Stripe program means: the interpreter."""
