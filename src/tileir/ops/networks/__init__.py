"""Layers of networks, and their training: losses, optimisers, schedules of learning rates."""
