"""Host processor: its features, and the model of its speed."""
