"""Operations with their options, each as a step of a composition: what builds it, and what NumPy makes of it."""
