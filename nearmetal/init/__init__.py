"""Writes the file of a site's system from what its cluster says (`nearmetal init`)."""
