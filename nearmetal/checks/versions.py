"""Names that differ between the supported versions of ReFrame."""

import reframe as rfm

from nearmetal.site import versions

#: Whether a check's `reference` may name a file (`$ref`). Otherwise, we read the file.
HAS_REFERENCE_FILES = versions.numbers(rfm.VERSION) >= (4, 10)
#: The class of parts of checks. It has another name before ReFrame 4.9.
Plugin = getattr(rfm, "RegressionTestPlugin", None) or rfm.RegressionMixin
