"""Graphs of programs as frozen networkx graphs, and walks over them."""
