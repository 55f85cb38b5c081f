"""Cost of kernels on a machine, counted from their loops: the same figures as of Stripe programs."""
