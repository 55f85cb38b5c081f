"""The model of what blocks of Stripe cost on a machine: points, regions, traffic between memories, cycles of a core."""
