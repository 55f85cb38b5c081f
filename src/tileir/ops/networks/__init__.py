"""Layers of networks, and what trains them: losses, optimisers, schedules of learning rates."""
