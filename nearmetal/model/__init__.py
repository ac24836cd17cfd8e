"""Plain data of the domain: facts, units, names."""
