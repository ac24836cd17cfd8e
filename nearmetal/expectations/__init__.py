"""What a variable may be on a first run: bounds from physics, the node and publications."""
