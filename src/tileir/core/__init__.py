"""What every stage shares: dtypes, elementwise operations, diagnostics, spans, text and rewriting."""
