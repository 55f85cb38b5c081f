"""Cost model of Stripe blocks on a machine: points, regions, memory traffic, cycles of a core."""
