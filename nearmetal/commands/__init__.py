"""The commands of `nearmetal`: one module each, imported when it runs.

Each function takes the parsed arguments, prints, and returns the exit code.
"""
