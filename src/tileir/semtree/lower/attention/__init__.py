"""Attention kernels for groups of threads: forward, backward, and with warp roles."""
