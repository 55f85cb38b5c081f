"""Schedules of kernels: kernels taken apart into loops and statements, and steps that rearrange them."""
