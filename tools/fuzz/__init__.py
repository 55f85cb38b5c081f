"""The fuzzing harness: random cases in areas, each checked against something that does not share our code.

``python -m fuzz`` runs it. A case is plain JSON, made by a source of choices and checked without
knowing where it came from, so that a case that failed is kept as a file and checked again for ever.
"""
