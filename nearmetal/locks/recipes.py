"""Fails where the recipe of a package that is to be installed, or of one of ours, is not that which
the lock was written with: what it gives would have the hash of something else.

    spack -e ENVIRONMENT python nearmetal/locks/recipes.py
"""

import sys

import spack.environment

others = [
    spec.format("{name}@{version}/{hash:7}")
    for spec in spack.environment.active_environment().all_specs()
    if not spec.external
    and (spec.namespace == "nearmetal" or not spec.installed)
    and spec.package.content_hash() != spec.package_hash()
]
sys.exit(
    f"the lock was written with another recipe of {', '.join(others)}: make spack-lock"
    if others
    else 0
)
