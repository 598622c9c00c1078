# SPDX-License-Identifier: Apache-2.0
"""Runs a build and shows how far it is, by the lines of ninja; all of its output if it fails.

python cmake/progress.py "what it does" command arguments...
"""

import re
import subprocess
import sys


def main() -> int:
    title, *command = sys.argv[1:]
    is_terminal, lines, shown = sys.stdout.isatty(), [], None
    end = "\r" if is_terminal else "\n"
    print(title, flush=True)
    build = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    for line in build.stdout:
        lines.append(line)
        step = re.match(r"\s*\[([1-9]\d*)/(\d+)\]", line)
        if step is None:
            continue
        quarter = int(step[1]) * 4 // int(step[2])
        if is_terminal or quarter != shown:
            shown = quarter
            print(f"  step {step[1]} of {step[2]}", end=end, flush=True)
    if is_terminal:
        print()
    if build.wait() != 0:
        print("".join(lines), file=sys.stderr)
    return build.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # the build gets it, too
        sys.exit(130)
