"""Is it good enough? Reads ReFrame's results database; installed as the `nearmetal` command."""
