"""Sphinx: `make docs` builds these pages. A dead link or reference fails the build."""

project = "Nearmetal"
author = "The Nearmetal developers"
html_title = "Nearmetal"
extensions = ["myst_parser", "docs.reference", "docs.links"]
myst_heading_anchors = 3
nitpicky = True
linkcheck_timeout = 10
linkcheck_retries = 1
smartquotes = False  # `--option` keeps its hyphens
html_theme = "furo"
html_copy_source = False
exclude_patterns = ["_build"]
