"""Vector schedules, and launch grids for kernels without one."""
