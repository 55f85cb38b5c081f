"""The graphs of programs as pictures and as files."""
