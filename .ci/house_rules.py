# SPDX-License-Identifier: Apache-2.0
"""Checks what the formatters do not: the licence line and the length of source files."""

import subprocess
import sys
from pathlib import Path

SUFFIXES = {".py", ".cc", ".h", ".cu", ".cuh"}
WARN_LINES, MAX_LINES = 400, 600


def problems(path: Path):
    """Yields (is_error, message)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not any("SPDX-License-Identifier:" in line for line in lines[:2]):
        yield True, "the first line is not an SPDX-License-Identifier"
    if len(lines) > WARN_LINES:
        limit = MAX_LINES if len(lines) > MAX_LINES else WARN_LINES
        yield len(lines) > MAX_LINES, f"{len(lines)} lines, more than {limit}: split it"


def source_files():
    """Files that git knows or would add; outside a repository, all of them."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    names = listing.stdout.splitlines() if listing.returncode == 0 else None
    if names is None:
        folders = ("ops", "sok_compat", "tests", "examples", "benchmarks", "cmake", ".ci")
        names = [str(path) for folder in folders for path in Path(folder).rglob("*")]
    paths = sorted({Path(name) for name in names if Path(name).suffix in SUFFIXES})
    return [path for path in paths if path.is_file() and path.stat().st_size > 0]


def main() -> None:
    num_errors = 0
    for path in source_files():
        for is_error, message in problems(path):
            num_errors += is_error
            print(f"{path}: {'error' if is_error else 'warning'}: {message}")
    sys.exit(num_errors > 0)


if __name__ == "__main__":
    main()
