"""JSON for nodes, and JSON that people write."""
