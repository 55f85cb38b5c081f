"""Named programs with arguments and the results that NumPy gives."""
