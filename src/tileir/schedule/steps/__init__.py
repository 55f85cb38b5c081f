"""The steps of schedules: each rearranges the loops and the memory of a kernel, or refuses with a reason."""
