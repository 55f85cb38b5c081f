"""Schedules for devices whose groups of threads share local memory."""
