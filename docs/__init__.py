"""The documentation: pages, the generated reference, and README's pictures."""
