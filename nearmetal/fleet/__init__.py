"""Which node, link or switch is slow, among all of a partition."""
