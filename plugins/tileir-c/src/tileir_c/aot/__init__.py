"""C ahead of time: a header, a source and a program that need neither Python nor tileir."""
