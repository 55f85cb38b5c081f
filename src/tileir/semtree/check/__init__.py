"""What a legal kernel is."""
