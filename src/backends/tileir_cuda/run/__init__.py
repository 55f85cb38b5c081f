"""Memory, events and launches of the CUDA driver."""
