"""Changes of algorithm: running windows, prefix sums, reductions in parts."""
