"""Reference semantics of Stripe programs: the interpreter."""
