"""Sphinx: `make docs` builds these pages. A dead link or reference fails the build."""

project = "Nearmetal"
author = "The Nearmetal developers"
html_title = "Nearmetal"
extensions = ["myst_parser", "docs.reference", "docs.links"]
myst_heading_anchors = 3
nitpicky = True
html_theme = "furo"
html_copy_source = False
exclude_patterns = ["_build"]
