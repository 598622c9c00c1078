# SPDX-License-Identifier: Apache-2.0
"""The version, from the metadata of the installation."""

import importlib.metadata

__version__ = importlib.metadata.version("sok_compat")
