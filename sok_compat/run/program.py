# SPDX-License-Identifier: Apache-2.0
"""Runs a script or module in this process as `python script.py` or `python -m module` would."""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader

from sok_compat.run.bfloat16_products import multiply_in_bfloat16
from sok_compat.run.console import hide_deprecations
from sok_compat.run.distributions import answer_as_deeprec
from sok_compat.run.horovod_stand_in import stand_in_for_horovod
from sok_compat.run.rank import NOTE, note_failure
from sok_compat.run.script_modules import own_code, read_imports_as_tensorflow_1
from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.settings import BFLOAT16_PRODUCTS

USAGE = """\
usage: python -m sok_compat.run [--bfloat16] script.py arguments...
       python -m sok_compat.run [--bfloat16] -m module arguments...

Runs a script for TensorFlow 1, DeepRec or SparseOperationKit 1.x on TensorFlow 2, without a changed
line: in its modules `import tensorflow` gives sok_compat.deeprec, and `import sparse_operation_kit`
gives sok_compat.sparse_operation_kit. With several processes:
horovodrun -np 2 python -m sok_compat.run script.py arguments...
or, one for each GPU: python -m sok_compat.run.launch script.py arguments...
Where Horovod is not installed, `import horovod.tensorflow` gives its most used names.

--bfloat16: TensorFlow's own rewriter has products of matrices computed in bfloat16, on processors
that can; all else stays float32. For several processes set SOK_BFLOAT16_PRODUCTS=1.
"""

_MOST_CHARACTERS = 4000  # of an error in one line


def main(arguments: Sequence[str]) -> None:
    """Runs the script or module that the first arguments name, with the rest as its arguments.

    Raises:
      SystemExit: nothing can be run, or TF_CONFIG has several tasks (status 2; 1 for a missing
        module, as in Python), or the script exits.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return
    if arguments[:1] == ["--bfloat16"]:
        os.environ[BFLOAT16_PRODUCTS.name], arguments = "1", arguments[1:]
    is_module = arguments[:1] == ["-m"]
    name, *own = arguments[is_module:] or [""]
    if not name or name.startswith("-"):
        what = "a module behind -m" if is_module else "a script"
        but = f", not {name!r}" if name else ""
        sys.stderr.write(f"python -m sok_compat.run needs {what}{but}\n{USAGE}")
        sys.exit(2)
    _refuse_clusters(os.environ.get("TF_CONFIG"))
    if importlib.util.find_spec("tf_keras"):  # with Keras 3, TensorFlow lacks tf.layers
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    hide_deprecations()
    answer_as_deeprec()  # before an import of TensorFlow, whose pkg_resources keeps what it found
    if _is_in_bfloat16():
        multiply_in_bfloat16()
    stand_in_for_horovod()
    read_imports_as_tensorflow_1()
    names, load = _module(name) if is_module else _script(name)
    sys.argv = [names["__file__"] if is_module else name, *own]
    _execute(names, load)


def _refuse_clusters(tf_config):
    """Exits if TF_CONFIG describes a cluster of several tasks: ranks have no parameter servers."""
    try:
        cluster = json.loads(tf_config or "{}").get("cluster") or {}
        tasks = {job: len(tasks) for job, tasks in cluster.items()}
    except (AttributeError, TypeError, ValueError):  # none of a cluster: the script may report it
        return
    if sum(tasks.values()) < 2:
        return
    num_ranks = max(1, sum(n for job, n in tasks.items() if job not in ("ps", "evaluator")))
    jobs = ", ".join(f"{n} of job {job!r}" for job, n in tasks.items())
    sys.stderr.write(
        f"python -m sok_compat.run: TF_CONFIG has several tasks ({jobs}), but sok_compat trains as "
        "ranks that share all tables, without parameter servers. Unset TF_CONFIG, and start all "
        f"ranks by one command: python -m sok_compat.run.launch -np {num_ranks} script.py ...\n"
    )
    sys.exit(2)


def _is_in_bfloat16():
    try:
        return BFLOAT16_PRODUCTS.value()
    except ValueError as error:
        sys.exit(f"python -m sok_compat.run: {error}")


def _script(name):
    """(names of its module, what loads its code)"""
    path = os.path.join(os.getcwd(), name[2:] if name.startswith("./") else name)  # as Python does
    loader = SourceFileLoader("__main__", path)
    try:
        source = loader.get_data(path)
    except OSError as error:
        sys.stderr.write(
            f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}\n"
        )
        sys.exit(2)
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    names = {"__file__": path, "__package__": None, "__loader__": loader, "__spec__": None}
    return names, lambda: own_code(source, path)


def _module(name):
    """(names of its module, what loads its code)"""
    spec = _spec_of_program(name)
    loader = spec.loader
    names = {
        "__file__": spec.origin,
        "__package__": spec.parent,
        "__loader__": loader,
        "__spec__": spec,
    }
    if isinstance(loader, SourceFileLoader):  # also for installed modules
        return names, lambda: own_code(loader.get_data(spec.origin), spec.origin)
    return names, lambda: loader.get_code(spec.name)


def _spec_of_program(name):
    """The spec of a module, or of a package's `__main__`."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:  # a package that contains it is missing
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None or spec.loader is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    return spec


def _execute(names, load):
    """Runs the code that `load` returns as the module `__main__`, with these names."""
    module = types.ModuleType("__main__")
    vars(module).update(__annotations__={}, __builtins__=builtins, __cached__=None, **names)
    sys.modules["__main__"] = module
    note = os.environ.pop(NOTE, None)  # not for processes that the script starts
    try:
        exec(load(), vars(module))
    except BaseException as error:
        status = _status_of(error)
        if note is not None and isinstance(error, KeyboardInterrupt):
            sys.exit(status)  # each rank's stack adds nothing to the Ctrl-C
        if note is not None and status:
            note_failure(note, status, _said(error))
        _show_from(vars(module))
        raise


def _status_of(error):
    """The status with which Python ends for an error."""
    if not isinstance(error, SystemExit):
        return 1
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _said(error):
    """An error in one line; empty for an exit without a message, and for Ctrl-C."""
    if isinstance(error, Exception):
        return f"{type(error).__name__}: {first_line(error, _MOST_CHARACTERS)}"
    return error.code if isinstance(error, SystemExit) and isinstance(error.code, str) else ""


def _show_from(namespace):
    """Makes the traceback of the final error begin in the script, not in the launcher.

    If the error has more than one line, as TensorFlow's have with their stacks, the line that
    matters comes last, alone.
    """
    show = sys.excepthook

    def show_without_launcher(kind, error, trace):
        while trace is not None and trace.tb_frame.f_globals is not namespace:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)
        if len(str(error).splitlines()) > 1:
            sys.stderr.write(f"\n{_said(error)}\n")

    sys.excepthook = show_without_launcher
