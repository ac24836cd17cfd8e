"""ReFrame's configuration: the systems and environments of this directory (`RFM_CONFIG_PATH`)."""

import sys
from pathlib import Path

from reframe.core.exceptions import ConfigError

HERE = Path(__file__).resolve().parent

try:
    from nearmetal.site.configuration import site_configuration as configuration
except ModuleNotFoundError as error:
    raise ConfigError(
        f"{sys.executable} does not find the package {error.name}. "
        f"Fix: export PYTHONPATH={HERE.parent}, or install it there: "
        f"{sys.executable} -m pip install -e {HERE.parent}"
    ) from error

site_configuration = configuration(HERE)
