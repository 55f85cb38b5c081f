"""What a kernel means: the interpreter."""
