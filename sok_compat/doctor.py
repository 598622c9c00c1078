# SPDX-License-Identifier: Apache-2.0
"""Reports what works here, and how to get what is missing: `python -m sok_compat.doctor [script]`;
with `--changes`, lists the changes to other libraries. `changes_of_process()` lists which of them
the process that calls it has made, and `tables_of_process()` its tables.

The exit status is 0 if tables can be trained in one process, else 1. Each library is loaded in a
separate process. With a script, imports are resolved as in the script: from its folder first.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from sok_compat.runtime.built_libraries import BUILD_AGAIN, built_libraries, library_for
from sok_compat.runtime.settings import SHARED_MEMORY

REBUILD_HOROVOD = (
    'pip install "cmake<4" "setuptools<81" wheel, then python cmake/horovod_install.py in the '
    "folder of sok_compat's sources"
)
_PROBE_SECONDS = 300
_LEAST_SHM_BYTES = 256 * 2**20  # containers have 64 MiB by default
_CUDA_TOOLKIT = "NVIDIA's CUDA toolkit 12.0 or newer"
_ALL_INTEGRATIONS = (
    "import sok_compat.ranks.horovod.integrations;"  # registers those of Horovod, too
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report."""

    status: str  # 'ok', 'missing' (an optional part) or 'broken' (a required part)
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n{'':22}To get it: {self.remedy}" if self.remedy else ""
        return f"{self.status:8}{self.subject:14}{self.text}{remedy}"


def examine(script: str | None = None) -> list[Finding]:
    """Returns all Findings, each after those that it depends on."""
    tensorflow = _probe(
        "import tensorflow as tf; result = {'version': tf.__version__,"
        " 'cuda': tf.test.is_built_with_cuda(),"
        " 'gpus': len(tf.config.list_physical_devices('GPU'))}"
    )
    findings = [_import_name(script), _engine(), _tensorflow(tensorflow)]
    if "version" in tensorflow:
        findings.append(_keras(tensorflow["version"]))
        findings.extend(_protobuf(tensorflow["version"]))
        findings.append(_op_library(tensorflow["version"]))
        findings.append(_horovod(tensorflow["version"]))
        findings.append(_integrations(has_horovod=findings[-1].status == "ok"))
    return [*findings, _shared_memory(), _dev_shm(), _cuda_compiler(), *_gpus(tensorflow)]


def _import_name(script: str | None = None) -> Finding:
    """Finds which package `import sparse_operation_kit` imports in the script's folder, and why."""
    folder = os.path.dirname(os.path.abspath(script)) if script else ""
    found = _probe(
        f"import sys; sys.path[0] = {folder!r}; import _sok_compat_imports as alias;"
        " directories = list(map(alias.directory_of, alias.real_packages()));"
        " result = {'built': [d for d in directories if alias.is_built(d)],"
        " 'not_built': [d for d in directories if not alias.is_built(d)]}"
    )
    subject = "import name"
    if "error" in found:
        text = f"only `import sok_compat` works, not sparse_operation_kit: {found['error']}"
        return Finding("missing", subject, text, BUILD_AGAIN)
    passed_over = (
        f" instead of the one in {', '.join(found['not_built'])}, which has no native libraries: "
        "it was not built"
        if found["not_built"]
        else ""
    )
    if found["built"]:
        text = (
            f"sparse_operation_kit is the one in {found['built'][0]}, which was built{passed_over}"
        )
        return Finding("missing", subject, text, "`import sok_compat as sok` in the script")
    return Finding("ok", subject, f"sparse_operation_kit is sok_compat's{passed_over}")


def _engine() -> Finding:
    found = _probe(
        "import sok_compat; from sok_compat.engine import _engine;"
        " table = sok_compat.HashTable(dim=1, capacity=1);"
        " result = {'rows': table.insert([7]).tolist(), 'why_no_cuda': _engine.WHY_NO_CUDA}"
    )
    if found.get("rows") == [0]:
        why = found["why_no_cuda"]
        cuda = f"for the CPU only, because {why}" if why else "with CUDA"
        return Finding("ok", "hash table", f"sok_compat.HashTable works; built {cuda}")
    return Finding("broken", "hash table", found["error"], BUILD_AGAIN)


def _tensorflow(found: dict[str, Any]) -> Finding:
    if "version" in found:
        return Finding("ok", "TensorFlow", found["version"])
    if _installed_version("tensorflow") or _installed_version("tensorflow-cpu"):
        return Finding("broken", "TensorFlow", f"does not import: {found['error']}")
    built_for = list(built_libraries())
    default = "2.15.1" if sys.version_info < (3, 12) else "2.21.0"
    fits = built_for[0] if len(built_for) == 1 else default
    remedy = f"pip install tensorflow-cpu=={fits}"
    return Finding("broken", "TensorFlow", "not installed; HashTable works without it", remedy)


def _keras(tensorflow_version: str) -> Finding:
    major, minor = tensorflow_version.split(".")[:2]
    if (int(major), int(minor)) < (2, 16):
        return Finding("ok", "Keras 2", f"part of TensorFlow {tensorflow_version}")
    installed = _installed_version("tf-keras") or _installed_version("tf_keras-nightly")
    remedy = f"pip install --no-deps tf-keras~={major}.{minor}.0"
    if installed is None:
        text = f"TensorFlow {tensorflow_version} brings Keras 3, which trains layers on one rank"
        return Finding("missing", "Keras 2", text, remedy)
    if installed.split(".")[:2] != [major, minor]:
        text = f"tf-keras {installed} is not made for TensorFlow {tensorflow_version}"
        return Finding("broken", "Keras 2", text, remedy)
    hint = (
        ""
        if os.environ.get("TF_USE_LEGACY_KERAS") == "1"
        else "; set TF_USE_LEGACY_KERAS=1 if your script uses tf.keras itself"
    )
    return Finding("ok", "Keras 2", f"tf-keras {installed}{hint}")


def _protobuf(tensorflow_version: str) -> list[Finding]:
    installed = _installed_version("protobuf") or ""
    if not tensorflow_version.startswith("2.20.") or int(installed.split(".")[0] or 0) < 7:
        return []
    text = (
        f"{installed}: TensorFlow {tensorflow_version} writes no graphs, as monitored sessions do"
    )
    return [Finding("missing", "protobuf", text, "pip install 'protobuf<7'")]


def _op_library(tensorflow_version: str) -> Finding:
    try:
        path = library_for(tensorflow_version)
    except ImportError as error:
        return Finding("broken", "op library", str(error))
    found = _probe(
        "from sok_compat.runtime.op_library import ops;"
        "from sok_compat.runtime.devices import has_gpu_kernels;"
        " result = {'loaded': hasattr(ops, 'sok_find_rows'), 'gpu': has_gpu_kernels()}"
    )
    if not found.get("loaded"):
        text = f"{path.name} does not load: {found.get('error')}"
        return Finding("broken", "op library", text, BUILD_AGAIN)
    kernels = "with kernels for GPUs" if found["gpu"] else "for the CPU only"
    return Finding("ok", "op library", f"{path.name} works, {kernels}")


def _horovod(tensorflow_version: str) -> Finding:
    installed = _installed_version("horovod")
    if installed is None:
        text = "not installed: one process, or ranks that mpiexec starts"
        remedy = f"for mpiexec, pip install mpich mpi4py; for horovodrun, {REBUILD_HOROVOD}"
        return Finding("missing", "Horovod", text, remedy)
    built_for = _horovod_built_for()
    if built_for not in (None, tensorflow_version):
        text = f"{installed} was built for TensorFlow {built_for}, not for {tensorflow_version}"
        return Finding("missing", "Horovod", text, REBUILD_HOROVOD)
    found = _probe(
        "import horovod.tensorflow as hvd; result = {name: bool(getattr(hvd, name + '_built')())"
        " for name in ('gloo', 'mpi', 'nccl')}"
    )
    if "error" in found:
        text = f"{installed} does not import, perhaps built for another TensorFlow: "
        return Finding("missing", "Horovod", text + found["error"], REBUILD_HOROVOD)
    transports = [name for name in ("gloo", "mpi", "nccl") if found[name]]
    return Finding("ok", "Horovod", f"{installed}, with {', '.join(transports)}")


def _horovod_built_for():
    """Returns the TensorFlow version in Horovod's metadata, or None."""
    spec = importlib.util.find_spec("horovod")
    path = os.path.join(os.path.dirname(spec.origin), "metadata.json") if spec else ""
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file).get("tensorflow")


def _integrations(has_horovod: bool) -> Finding:
    found = _probe(
        ("import horovod.tensorflow; " if has_horovod else "")
        + f"{_ALL_INTEGRATIONS} from sok_compat.runtime.integrations import INTEGRATIONS;"
        " from sok_compat.runtime.tf_versions import has_keras_2;"
        f" missing = ('hvd.',) * (not {has_horovod}) + ('tf.keras.',) * (not has_keras_2);"
        " names = [n for n in INTEGRATIONS if not n.startswith(missing)];"
        " result = {'checked': len([INTEGRATIONS[name].check() for name in names])}"
    )
    if "error" in found:
        return Finding("broken", "changes", found["error"])
    text = (
        f"{found['checked']} functions and classes of other libraries are replaced once there are "
        "tables, and match the tested ones: --changes lists them"
    )
    return Finding("ok", "changes", text)


def print_changes() -> int:
    """Prints the table of changes to other libraries; returns the exit status, 1 without
    TensorFlow."""
    found = _probe(
        f"{_ALL_INTEGRATIONS} from sok_compat.runtime.integrations import table_of_changes;"
        " result = {'rows': table_of_changes()}"
    )
    if "error" in found:
        print(found["error"])
        return 1
    print("Importing changes nothing. Functions are replaced before the first table is made.\n")
    print(_as_table(found["rows"]))
    return 0


def changes_of_process() -> str:
    """Returns what this process has changed so far in other libraries and the interpreter, as text.

    Changes to single objects, which end with them, are not noted: `--changes` lists them.
    """
    integrations = importlib.import_module("sok_compat.runtime.integrations")
    hooks = [type(finder).__module__ for finder in sys.meta_path]
    own = [module for module in hooks if module.lstrip("_").startswith("sok_compat")]
    return (
        f"{_as_table(integrations.table_of_changes(is_of_process=True))}\n\n"
        f"import hooks in sys.meta_path: {', '.join(own) or 'none'}"
    )


def tables_of_process() -> str:
    """Returns the memory and files of this process's tables, as text.

    Rows found and bytes are those since the tables were made; see `sok_compat.stats`.
    """
    tables = importlib.import_module("sok_compat.summaries").stats()["tables"]
    rows = []
    for name, of in tables.items():
        sizes = [of[each] / 1e6 for each in ("bytes", "resident_bytes", "bytes_read",
                                             "bytes_written")]  # fmt: skip
        found = 1 - of["rows_missed"] / max(1, of["rows_requested"])
        total, resident, read, written = (f"{size:,.1f} MB" for size in sizes)
        in_files = of["file_bytes"] > 0
        rows.append([
            name, f"{of['keys']:,}", total, resident,
            *((f"{found:.3f}", read, written) if in_files else ("", "", "")),
        ])  # fmt: skip
    titles = ("table", "keys", "total", "in memory", "rows found there", "read", "written")
    return _as_table(rows, titles)


def _as_table(
    rows: Sequence[Sequence[str]],
    titles: Sequence[str] = ("what", "why", "tested on", "tested by", "how to undo it"),
) -> str:
    head = f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def _shared_memory() -> Finding:
    """Checks that a process can open the memory of another one, as ranks of one host do."""
    subject = "shared memory"
    if not SHARED_MEMORY.value():
        text = f"off by {SHARED_MEMORY.name}=0: ranks of this host exchange through Horovod"
        return Finding("ok", subject, text)
    descriptor = os.memfd_create("sok_compat doctor")
    try:
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        found = _probe(f"result = {{'opened': bool(open({path!r}, 'r+b'))}}")
    finally:
        os.close(descriptor)
    if "error" in found:
        text = f"ranks of this host exchange through Horovod, which is slower: {found['error']}"
        remedy = (
            "run all ranks of a host in one container, as one user; to choose Horovod, "
            f"{SHARED_MEMORY.name}=0"
        )
        return Finding("missing", subject, text, remedy)
    text = "works between ranks of this host, whatever the size of /dev/shm"
    return Finding("ok", subject, f"{text}; {SHARED_MEMORY.name}=0 turns it off")


def _dev_shm() -> Finding:
    subject, users = "/dev/shm", "MPI and NCCL use it, where Horovod has them"
    remedy = (
        "docker run --shm-size=1g, or --ipc=host; without it, NCCL_SHM_DISABLE=1 and, for Open "
        "MPI, OMPI_MCA_btl=self,tcp"
    )
    try:
        found = os.statvfs(subject)
    except OSError as error:
        return Finding("missing", subject, f"{error.strerror}; {users}", remedy)
    size, free = (blocks * found.f_frsize for blocks in (found.f_blocks, found.f_bavail))
    text = f"{size / 2**20:,.0f} MiB, {free / 2**20:,.0f} MiB of them free; {users}"
    if free < _LEAST_SHM_BYTES:
        return Finding("missing", subject, f"small: {text}", remedy)
    return Finding("ok", subject, text)


def _cuda_compiler() -> Finding:
    compiler = os.environ.get("CUDACXX") or shutil.which("nvcc")
    if compiler is None:
        text = "no nvcc on PATH: sok_compat will be built for the CPU only"
        return Finding("missing", "CUDA compiler", text, _CUDA_TOOLKIT)
    try:
        shown = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        text = f"{compiler} does not run: {error}"
        return Finding("missing", "CUDA compiler", text, _CUDA_TOOLKIT)
    release = [line for line in shown.stdout.splitlines() if "release" in line]
    return Finding("ok", "CUDA compiler", (release or [compiler])[0].strip())


def _gpus(tensorflow: dict[str, Any]) -> Iterator[Finding]:
    lister = shutil.which("nvidia-smi")
    listed = subprocess.run([lister, "-L"], capture_output=True, text=True) if lister else None
    names = listed.stdout.splitlines() if listed and listed.returncode == 0 else []
    if not names:
        remedy = "NVIDIA's driver; in a container, docker run --gpus all"
        yield Finding("missing", "GPU", "none is visible: tables are on the CPU", remedy)
        return
    yield Finding("ok", "GPU", "; ".join(names))
    if "version" in tensorflow and not tensorflow["gpus"]:
        reason = "is built without CUDA" if not tensorflow["cuda"] else "finds no GPU it can use"
        remedy = f"pip install 'tensorflow[and-cuda]=={tensorflow['version']}'"
        yield Finding("missing", "GPU for models", f"TensorFlow {reason}", remedy)


def _installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _probe(code: str) -> dict[str, Any]:
    """Runs `code` in another Python and returns its `result`; {'error': a line} if it fails."""
    program = f"import json; {code}; print(); print(json.dumps(result))"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        run = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env=environment,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {_PROBE_SECONDS} seconds"}
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    if run.returncode < 0:
        return {"error": f"Python was ended by signal {-run.returncode}"}
    return {"error": (run.stderr.strip().splitlines() or ["no message"])[-1]}


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the report; returns exit status 0 if training can start, else 1."""
    parser = argparse.ArgumentParser(prog="python -m sok_compat.doctor", description=__doc__)
    parser.add_argument("script", nargs="?", help="the script to run")
    parser.add_argument(
        "--changes",
        action="store_true",
        help="list the changes to other libraries, and why they are made",
    )
    options = parser.parse_args(arguments)
    if options.script and not os.path.exists(options.script):
        parser.error(f"there is no script {options.script}")
    if options.changes:
        return print_changes()
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print(f"sok_compat {_installed_version('sok_compat')}, {python}")
    findings = examine(options.script)
    print(*findings, sep="\n")
    is_broken = any(finding.status == "broken" for finding in findings)
    print("Training cannot start." if is_broken else "Tables can be trained here.")
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
