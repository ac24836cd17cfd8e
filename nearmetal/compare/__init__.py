"""Partitions side by side, and beside what is published."""
