"""What a cluster says of itself: Slurm, modules, and a node's facts.

The parsers are pure functions of text. `ask.py` runs the commands.
"""
