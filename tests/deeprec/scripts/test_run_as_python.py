# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run` runs a script as `python` does: no TensorFlow in these scripts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environments import REPOSITORY, write_files

HOROVODRUN = shutil.which(
    "horovodrun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)

# Prints what a script can see of how it was started, and ends as it is told.
SCRIPT = '''"""What it does."""
import os, signal, sys
import model.layers
from helper import end

print(__name__, __doc__, __file__, __package__, type(__builtins__).__name__)
print(__spec__ and __spec__.name)
print(sys.argv, sys.path[0], sorted(globals()))
print(sys.modules["__main__"].end is end, model.layers.__file__, model.__cached__)
print("tensorflow" in sys.modules, "sok_compat.deeprec" in sys.modules)

if __name__ == "__main__":
    end(sys.argv[1])
'''
HELPER = """
import atexit, logging, os, signal, sys, threading, warnings

def fail():
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("no such key") from error

def end(how):
    atexit.register(print, "at exit")
    if how == "raise":
        fail()
    if how == "own hook":
        sys.excepthook = lambda kind, error, trace: print(kind, error, trace.tb_lineno)
        fail()
    if how == "log":
        try:
            import broken
        except SyntaxError:
            logging.exception("failed")
        warnings.warn("odd")
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if how == "thread":
        threading.Timer(0.05, print, ["thread"]).start()
    if how.startswith("exit"):
        sys.exit({"exit": None, "exit 3": 3, "exit text": "a text"}[how])
"""
ENDS = ["", "raise", "own hook", "log", "interrupt", "thread", "exit", "exit 3", "exit text"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    write_files(
        folder,
        {
            "script.py": SCRIPT,
            "helper.py": HELPER,
            "broken.py": "import os\nx = = 1\n",
            "cannot_be_parsed.py": "print(1)\nx = = 1\n",
            "latin.py": '# coding: latin-1\nprint("\\xe9".encode(), "é".encode())\n',
            "model/__init__.py": "",
            "model/__main__.py": "from . import layers\nprint(__spec__.name, __package__)\n",
            "model/layers.py": "",
            "elsewhere/place": "",
        },
    )
    (folder / "elsewhere" / "link.py").symlink_to(folder / "script.py")
    return folder


def run(*arguments, cwd, launcher=()):
    """(status, stdout, stderr)."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *launcher, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    return done.returncode, done.stdout, done.stderr


LAUNCHER = ("-m", "sok_compat.run")


@pytest.mark.parametrize(
    "arguments",
    [
        *(["../script.py", end, "--flag", "a b"] for end in ENDS),
        ["link.py", ""],
        ["../latin.py"],
        ["../cannot_be_parsed.py"],
        ["../missing.py", "--flag"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_script(project, arguments):
    folder = project / "elsewhere"
    assert run(*arguments, cwd=folder, launcher=LAUNCHER) == run(*arguments, cwd=folder)


@pytest.mark.parametrize("module", ["script", "model", "missing", "model.missing", "missing.model"])
def test_module(project, module):
    """As Python's -m, but for the words where there is none."""
    expected = run("-m", module, "exit 3", cwd=project)
    actual = run("-m", module, "exit 3", cwd=project, launcher=LAUNCHER)
    assert actual[:2] == expected[:2]
    if "missing" in module:
        assert f"No module named {module}" in actual[2]


@pytest.mark.parametrize("arguments", [[], ["-m"], ["--np", "2"]], ids=" ".join)
def test_nothing_to_run(project, arguments):
    status, printed, message = run(*LAUNCHER, *arguments, cwd=project)
    assert (status, printed) == (2, "")
    assert re.match(r"python -m sok_compat.run needs a (script|module behind -m)", message)
    assert "usage: python -m sok_compat.run [--bfloat16] script.py" in message


def test_modules_of_the_script_leave_no_bytecode(project):
    """What other programs import is the source as it is; installed modules are not touched."""
    script = "import helper, installed; print(type(helper.__loader__), type(installed.__loader__))"
    unused = "if 0:\n    import tensorflow\n"
    write_files(
        project / "other",
        {
            "main.py": f"import sys; sys.path.append('libraries'); {script}",
            "helper.py": unused,
            "libraries/installed.py": unused,
            "libraries/installed-1.dist-info/METADATA": "",
        },
    )
    status, printed, message = run("main.py", cwd=project / "other", launcher=LAUNCHER)
    assert status == 0, message
    assert re.match(r"<.*ScriptLoader'> <.*SourceFileLoader'>", printed)
    assert not (project / "other" / "__pycache__").exists()


@pytest.mark.thorough
@pytest.mark.skipif(HOROVODRUN is None, reason="needs Horovod")
def test_several_ranks(project):
    write_files(project, {"ranks.py": "import sys\nprint(__name__, sys.argv)\n"})
    command = ["-np", "2", "--gloo", sys.executable, *LAUNCHER, "ranks.py", "--flag", "b"]
    status, printed, message = run(HOROVODRUN, *command, cwd=project)
    assert status == 0, message
    assert printed.count("__main__ ['ranks.py', '--flag', 'b']") == 2
