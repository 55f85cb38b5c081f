"""The designer in notebooks."""
