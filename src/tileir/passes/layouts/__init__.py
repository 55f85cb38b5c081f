"""Layouts of temporaries: transposed, padded, or split by channel."""
