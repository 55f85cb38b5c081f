"""Ahead-of-time C: a header, a source and a program that need neither Python nor tileir."""
