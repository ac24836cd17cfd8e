"""Finds what a system lacks to run the checks (`nearmetal doctor`)."""
