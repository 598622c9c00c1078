# SPDX-License-Identifier: Apache-2.0
"""Registers and local memory of all CUDA kernels, as ptxas reports them. Needs no GPU.

usage: python3 cmake/cuda_report.py [--brief] [--nvcc NVCC] [--architectures 75,80,90]

Prints a Markdown table, or with --brief one line, and fails if the compiler warns, or a kernel of
this project spills registers, uses local memory, or takes more registers than leave room for 1,024
threads on a multiprocessor.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Between them these instantiate every kernel, those of TensorFlow's ops included.
TESTS = sorted(str(path) for path in ROOT.glob("ops/tests/device/device*_test.cc"))
SOURCES = [str(ROOT / "ops/cuda/cuda_engine.cu"), *TESTS]
MAX_REGISTERS = 64
KERNEL = re.compile(
    r"Compiling entry function '(?P<name>\S+)' for 'sm_(?P<architecture>\d+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def ptxas_log(nvcc, source, architectures) -> str:
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, "-std=c++17", "-O3", "--fmad=false", "-Werror=all-warnings", *targets]
        command += ["-Xptxas=-v", "-Xcompiler=-Wall,-Wextra", "-I.", "-x", "cu", "-fatbin", source]
        command += ["-o", f"{folder}/kernels.fatbin"]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    return run.stdout + run.stderr


def readable(mangled: str) -> str:
    """The kernel and what it is a template on, without namespaces and parameter types."""
    names = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^void |sok::|\(sok::.*|\(Count.*", "", names.strip())


def kernels(log: str):
    """{name: {architecture: registers}}, and the complaints."""
    registers, complaints = {}, []
    for match in KERNEL.finditer(log):
        if not match["name"].startswith("_ZN3sok"):
            continue  # of CUB
        name = readable(match["name"])
        registers.setdefault(name, {})[match["architecture"]] = int(match["registers"])
        where = f"{name} on sm_{match['architecture']}"
        if int(match["stack"]) or int(match["stores"]) or int(match["loads"]):
            complaints.append(f"{where} uses {match['stack']} bytes of local memory")
        if int(match["registers"]) > MAX_REGISTERS:
            complaints.append(f"{where} takes {match['registers']} registers")
    return registers, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--architectures", default="75,80,90")
    options = parser.parse_args()
    architectures = options.architectures.split(",")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        logs = pool.map(lambda source: ptxas_log(options.nvcc, source, architectures), SOURCES)
        log = "\n".join(logs)
    registers, complaints = kernels(log)
    if not registers:
        sys.exit("no kernel found in the output of ptxas; has its format changed?")
    if not options.brief:
        print_table(registers, architectures)
    if complaints:
        sys.exit("\n".join(complaints))
    most = max(count for of_kernel in registers.values() for count in of_kernel.values())
    print(
        f"{len(registers)} CUDA kernels on sm_{', sm_'.join(architectures)}: no spills, no local "
        f"memory, at most {most} registers."
    )


def print_table(registers, architectures):
    print("| kernel, registers on |", *(f"sm_{a} |" for a in architectures))
    print("|---|" + "---|" * len(architectures))
    for name, by_architecture in sorted(registers.items()):
        print(f"| `{name}` |", *(f"{by_architecture.get(a, '')} |" for a in architectures))
    print()


if __name__ == "__main__":
    main()
