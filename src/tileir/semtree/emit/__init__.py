"""Bases for emitters: a public one for languages like C."""
