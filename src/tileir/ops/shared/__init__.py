"""What operations share: arguments and layouts, windows, positions, and how bodies are written."""
