"""Cost of kernels on a machine, counted from their loops, in the figures used for Stripe programs."""
