# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run [-m module | script.py] arguments...`."""

import sys

from sok_compat.run.program import main

if __name__ == "__main__":
    main(sys.argv[1:])
