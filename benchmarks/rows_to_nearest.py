# SPDX-License-Identifier: Apache-2.0
"""Runs a module as `python -m` does, with rows of two bytes rounded to nearest where nobody says
how: `python benchmarks/rows_to_nearest.py MODULE arguments...`."""

import runpy
import sys

from sok_compat.tables import Table

if __name__ == "__main__":
    Table.__init__.__kwdefaults__["rounding"] = "nearest"
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
