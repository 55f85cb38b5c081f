"""What the driver does: memory, events, launches."""
