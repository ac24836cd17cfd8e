"""Explains what got worse: facts that changed, evidence that moved, layers that moved together."""
