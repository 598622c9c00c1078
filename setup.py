# SPDX-License-Identifier: Apache-2.0
"""For tools that still call setup.py. The build is described in pyproject.toml, not here."""

import subprocess
import sys

PIP_ARGUMENTS = {
    "install": ["install", "."],
    "develop": ["install", "--no-build-isolation", "--editable", "."],
    "bdist_wheel": ["wheel", "--no-deps", "--wheel-dir", "dist", "."],
}

if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) == 2 else None
    if command not in PIP_ARGUMENTS:
        sys.exit(
            f"setup.py knows {', '.join(PIP_ARGUMENTS)} and hands them to pip; for anything else "
            "use pip (`pip install .`) or make (`make help`)."
        )
    sys.exit(subprocess.call([sys.executable, "-m", "pip", *PIP_ARGUMENTS[command]]))
