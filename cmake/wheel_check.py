# SPDX-License-Identifier: Apache-2.0
"""Tries wheels as somebody would who has no compiler: installs each into a fresh environment, and
runs the doctor, the demo, and the programs of the README and the quick start there.

    python cmake/wheel_check.py dist/*.whl [--all-releases] [--tests] [--python 3.13]

Without --all-releases, with one TensorFlow for each wheel: the default of its Python. --tests runs
a short suite as well: optimizers, both Kerases, checkpoints, exported models, two ranks by MPI.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import tensorflow_install

ROOT = Path(__file__).resolve().parents[1]
SHORT_SUITE = (
    *("optimizers/test_keras_optimizers.py", "optimizers/test_stock_optimizers.py"),
    *("eager/test_keras_models.py", "eager/test_checkpoints.py", "saver/test_tf_checkpoint.py"),
    *("saver/test_exported_models.py", "distributed/mpi/test_ranks_of_mpi.py"),
)
KERAS_3_SUITE = ("runtime/test_keras_3.py", "eager/test_keras_models.py")
PYTEST = ("-m", "pytest", "-q", "-m", "not thorough", "--at-most", "1")
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "use" / "quick_start.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--python", help="such as 3.13; default: the wheel's own")
    parser.add_argument("--all-releases", action="store_true", help="each TensorFlow of the wheel")
    parser.add_argument("--tests", action="store_true", help="also run a short suite of tests")
    options = parser.parse_args()
    for wheel in options.wheels:
        python = options.python or re.search(r"-cp3(\d+)-", wheel.name).expand(r"3.\1")
        for release in releases_to_try(wheel, python, options.all_releases):
            check(wheel.resolve(), python, release, options.tests)


def releases_to_try(wheel: Path, python: str, all_of_them: bool) -> list:
    with zipfile.ZipFile(wheel) as archive:
        names = "\n".join(archive.namelist())
    carried = re.findall(r"^sok_compat/runtime/_ops-(.+)\.so$", names, re.MULTILINE)
    minor = int(python.split(".")[1])
    fitting = [each for each in tensorflow_install.releases((3, minor)) if each in carried]
    tested = [each for each in tensorflow_install.TESTED_VERSIONS if each in fitting]
    return fitting if all_of_them or not fitting else (tested or fitting)[:1]


def check(wheel: Path, python: str, release: str, with_tests: bool) -> None:
    print(f"{wheel.name} on Python {python} with TensorFlow {release}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"python{python}", "-m", "venv", folder], check=True)
        beside = tensorflow_install.companions(release)
        environment = Environment(Path(folder), {"TF_USE_LEGACY_KERAS": "1"} if beside else {})
        # tf-keras without its dependency `tensorflow`, which would lie over tensorflow-cpu.
        environment.install(f"tensorflow-cpu=={release}")
        for requirement in beside:
            environment.install("--no-deps", requirement)
        began = time.perf_counter()
        environment.install(wheel)
        environment.python("-m", "sok_compat.demo", "--steps", "1")
        seconds = time.perf_counter() - began
        print(f"  from `pip install` of the wheel to the end of a first step: {seconds:.0f} s")
        environment.python("-m", "sok_compat.doctor")
        environment.install("tensorboard")  # for summaries; TensorFlow 2.21 does not bring it
        for program in programs():
            script = Path(folder, "program.py")
            script.write_text(program)
            is_deeprec = "tf.EmbeddingVariableOption" in program
            launcher = ["-m", "sok_compat.run"] if is_deeprec else []
            environment.python(*launcher, script)
        print("  doctor, demo, programs of README and quick start: passed", flush=True)
        if with_tests:
            run_short_suite(environment, has_keras_3=bool(beside))


def run_short_suite(environment: "Environment", has_keras_3: bool) -> None:
    requirements = (ROOT / "requirements-dev.txt").read_text()
    packages = r"^(?:pytest|hypothesis|pyarrow|mpich|mpi4py)\b\S*"
    environment.install(*re.findall(packages, requirements, re.M))
    # Away from the sources of the package, so that the tests import the wheel.
    for part in ("tests", "examples", "cmake"):
        shutil.copytree(ROOT / part, environment.folder / part)
    shutil.copy(ROOT / "pyproject.toml", environment.folder)
    suites = {"2": SHORT_SUITE, **({"3": KERAS_3_SUITE} if has_keras_3 else {})}
    for keras, suite in suites.items():
        environment.variables["SOK_TEST_KERAS"] = keras
        if keras == "3":
            environment.variables.pop("TF_USE_LEGACY_KERAS", None)
        output = environment.python(*PYTEST, *(f"tests/{each}" for each in suite))
        print(f"  Keras {keras}: {output.splitlines()[-1]}", flush=True)


def programs() -> list:
    """The Python programs of DOCUMENTS."""
    text = "".join(document.read_text() for document in DOCUMENTS)
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


class Environment:
    """A virtual environment from which no compiler can be found."""

    def __init__(self, folder: Path, variables: dict) -> None:
        self.folder, self.variables = folder, variables

    def install(self, *arguments) -> None:
        self.python("-m", "pip", "install", "--quiet", *arguments)

    def python(self, *arguments) -> str:
        """What a program of Python prints; one that fails ends this one."""
        programs = self.folder / "bin"
        done = subprocess.run(
            [programs / "python", *map(str, arguments)],
            env={**os.environ, **self.variables, "PATH": str(programs)},
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout


if __name__ == "__main__":
    main()
