# SPDX-License-Identifier: Apache-2.0
"""Virtual environments of their own, and a small stand-in package to install into them."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FACE = "sok_compat/sparse_operation_kit"
STUB_FILES = {
    "sok_compat/__init__.py": "",
    f"{FACE}/__init__.py": "def register_ops():\n    pass\n",
    f"{FACE}/core/__init__.py": "",
    f"{FACE}/core/initialize.py": "class Init:\n    pass\n",
    f"{FACE}/saver/__init__.py": "from sok_compat.sparse_operation_kit.saver.Saver import Saver\n",
    f"{FACE}/saver/Saver.py": "class Saver:\n    pass\n",
    f"{FACE}/tf/__init__.py": "",
    f"{FACE}/tf/keras/__init__.py": "",
    f"{FACE}/tf/keras/optimizers/__init__.py": "",
    f"{FACE}/tf/keras/optimizers/lazy_adam.py": "class LazyAdamOptimizer:\n    pass\n",
    "sok_compat/distributed_embeddings/__init__.py": "def register_ops():\n    pass\n",
    "sok_compat/distributed_embeddings/version.py": "",
    "ops/base/stub.cc": "namespace sok {\nint Stub() { return 0; }\n}  // namespace sok\n",
}
NO_NATIVE_PARTS = ["-Ccmake.define.SOK_TENSORFLOW=OFF", "-Ccmake.define.SOK_ENGINE=OFF"]


def write_files(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Environment:
    """A virtual environment that sees this one's packages, except sok_compat."""

    def __init__(self, directory):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.directory = directory
        self.python = directory / "bin" / "python"
        self.site_packages = Path(
            sysconfig.get_path("purelib", vars={"base": directory, "platbase": directory})
        )
        self._link_packages()

    def _link_packages(self):
        links = self.directory / "packages"
        links.mkdir()
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if "sok_compat" not in entry.name:
                (links / entry.name).symlink_to(entry)
        (self.site_packages / "packages_of_the_tests.pth").write_text(f"{links}\n")

    def pip(self, *arguments):
        """Runs pip of this interpreter on the environment."""
        command = [sys.executable, "-m", "pip", "--python", self.python, "--quiet", *arguments]
        subprocess.run(command, check=True)

    def run(self, code, cwd=None):
        """Runs Python code; returns what it printed. Whatever it writes to stderr fails."""
        path = (
            f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # an editable rebuild uses cmake
        )
        done = subprocess.run(
            [self.python, "-c", code],
            env={**os.environ, "PATH": path},
            cwd=cwd or self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout.strip()


def install(environment, kind, project):
    editable = ["--editable"] if kind == "editable" else []
    environment.pip(
        "install", "--no-build-isolation", "--no-deps", *NO_NATIVE_PARTS, *editable, project
    )
    return environment


def write_stub_project(project):
    """The build files of this repository around a package without native parts."""
    for name in ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, project)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "cmake", project / "cmake", ignore=ignored)
    write_files(project, STUB_FILES)
