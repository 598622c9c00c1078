# SPDX-License-Identifier: Apache-2.0
"""Makes a small Debian 11 whose compilers this system can call, for wheels that run on systems as
old as that (glibc 2.31). Run it as root; it needs debootstrap.

    python cmake/old_system.py /opt/debian11 FOLDER...
    CC=/opt/debian11/cc CXX=/opt/debian11/c++ make wheels

The compilers see the FOLDERs, such as the checkout and a CUDA toolkit, and the headers of the
Pythons on the PATH.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASE = "bullseye"
# Its own headers do not exist outside: as dependencies (-MD) they would have all compiled again.
COMPILER = """\
#!/bin/sh
for word; do shift; [ "$word" = -MD ] && word=-MMD; set -- "$@" "$word"; done
exec chroot {root} sh -c 'cd "$0" && exec {compiler} "$@"' "$PWD" "$@"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("root", type=Path, help="the folder to make it in")
    parser.add_argument("folders", type=Path, nargs="*", help="what the compilers shall see")
    options = parser.parse_args()
    root = options.root.absolute()
    if not (root / "usr" / "bin" / "g++").exists():
        subprocess.run(["debootstrap", "--variant=buildd", RELEASE, root], check=True)
    for folder in [*options.folders, Path(tempfile.gettempdir()), *headers_of_pythons()]:
        show(folder.absolute(), root)
    for name, compiler in (("cc", "gcc"), ("c++", "g++")):
        (root / name).write_text(COMPILER.format(root=root, compiler=compiler))
        (root / name).chmod(0o755)
    print(f"CC={root}/cc CXX={root}/c++")


def headers_of_pythons() -> set:
    """The folders of headers of all Pythons on the PATH."""
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    folders = set()
    for minor in range(9, 15):
        python = shutil.which(f"python3.{minor}")
        found = python and subprocess.run([python, "-c", code], capture_output=True, text=True)
        if found and found.returncode == 0 and Path(found.stdout.strip()).is_dir():
            folders.add(Path(found.stdout.strip()))
    return folders


def show(folder: Path, root: Path) -> None:
    """Mounts a folder at its own path below the root, unless it is there."""
    inside = root / folder.relative_to("/")
    if inside.is_mount():
        return
    inside.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", folder, inside], check=True)


if __name__ == "__main__":
    sys.exit(main())
