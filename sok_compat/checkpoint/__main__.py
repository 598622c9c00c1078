# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.checkpoint show | changes | export | import | diff`.

docs/use/checkpoint_tool.md says more.
"""

import sys

from sok_compat.checkpoint.tool.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
