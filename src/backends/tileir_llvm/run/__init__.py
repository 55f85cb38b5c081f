"""Machine code: generation, loading, and execution by persistent threads."""
