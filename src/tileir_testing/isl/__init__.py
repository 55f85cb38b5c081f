"""Index sets and data flow of Stripe programs, by the Integer Set Library."""
