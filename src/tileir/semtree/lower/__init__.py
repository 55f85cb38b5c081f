"""From Stripe to the semtree."""
