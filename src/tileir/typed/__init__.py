"""Functions in which every value has a dtype and a shape: a flat dataflow graph in program order."""
