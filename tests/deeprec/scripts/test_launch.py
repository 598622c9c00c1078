# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run.launch` runs a command as several processes; no TensorFlow in these."""

import os
import re
import signal
import subprocess
import sys

import pytest

from sok_compat.run import launch as launch_module
from sok_compat.run.launch import num_gpus
from sok_compat.run.rank import first_failure, note_failure
from tests.distributed.launch import has_horovod, why_no_mpi
from tests.packaging.environments import REPOSITORY

RANK = "int(os.environ.get('HOROVOD_RANK', 0))"
SCRIPT = f"""
import os, sys, time
print(__name__, sys.argv[1:], {RANK}, os.environ.get("HOROVOD_SIZE"), os.environ.get("X"))
print({RANK}, "sees", os.environ.get("CUDA_VISIBLE_DEVICES"))
if {RANK} == 1:
    sys.exit(int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
print("has slept")
"""


MODULE = ("-m", "sok_compat.run.launch")
WITHOUT_HOROVOD = (
    "-c",
    "import sys; sys.modules['horovod'] = None; "
    "from sok_compat.run.launch import main; main(sys.argv[1:])",
)


def launch(*arguments, cwd, start=MODULE, **environment):
    """(status, stdout, stderr)."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.thorough
@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_one_process_for_each_listed_gpu(folder):
    status, printed, _ = launch(
        "train.py", "0", "0", cwd=folder, CUDA_VISIBLE_DEVICES="0,1", X="a b"
    )
    assert status == 0
    for rank in (0, 1):
        assert f"__main__ ['0', '0'] {rank} 2 a b" in printed
        assert f"{rank} sees 0,1" in printed  # sessions of ranks take the one of their local rank


@pytest.mark.thorough
@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_the_first_that_failed_ends_the_others_and_its_status_comes_back(folder):
    command = ["-np", "2", sys.executable, "train.py", "3", "60"]
    status, printed, message = launch(*command, cwd=folder, CUDA_VISIBLE_DEVICES="")
    assert status == 3, message
    assert "has slept" not in printed


FAILING = f"""
import os, sys, time
if {RANK} == 0:
    try:
        raise ValueError("the cause")
    finally:
        print("fails")
        import atexit
        atexit.register(time.sleep, 2)  # another rank, which fails for it, ends before this one
time.sleep(0.5)
raise RuntimeError("rank 0 has left: the cause\\n\\nand its stack")
"""


@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_the_error_of_the_first_rank_that_failed_comes_last(tmp_path):
    (tmp_path / "train.py").write_text(FAILING)
    status, _, message = launch("-np", "2", "train.py", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert status == 1
    assert message.endswith("\n\nrank 0 failed first, with status 1: ValueError: the cause\n")
    of_second = "".join(re.findall(r"^\[1\]<stderr>:(.*\n)", message, re.MULTILINE))
    assert of_second.endswith("and its stack\n\nRuntimeError: rank 0 has left: the cause\n")


def test_a_rank_that_failed_since_another_left_is_not_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "1")
    note_failure(tmp_path / "of 1", 1, "RuntimeError: exchange layer_0: rank 0 has left")
    assert first_failure(str(tmp_path)).rank == "1"
    monkeypatch.setenv("HOROVOD_RANK", "0")
    note_failure(tmp_path / "of 0", 3, "ValueError: the cause")
    assert first_failure(str(tmp_path))[1:] == ("0", 3, "ValueError: the cause")


UP = "import os, time; os.write(1, b'is up '); time.sleep(60)"


@pytest.mark.parametrize("to_group", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("by", ["horovod", "mpi", "nothing"])
def test_signals_leave_nothing_behind(tmp_path, by, number, to_group):
    if by == "nothing" and number == signal.SIGINT and not to_group:
        pytest.skip("a terminal sends SIGINT to the command, too")
    if number == signal.SIGHUP and (by == "nothing" or not to_group):
        pytest.skip("a terminal that closes sends it to the group; one process is not forwarded it")
    if by == "horovod" and not has_horovod():
        pytest.skip("Horovod is not installed: run `make horovod`")
    if by == "mpi" and why_no_mpi() is not None:
        pytest.skip(why_no_mpi())
    (tmp_path / "train.py").write_text(UP)
    (tmp_path / "temporary").mkdir()
    options = {"horovod": ["-np", "2"], "mpi": ["--mpi", "-np", "2"], "nothing": ["-np", "1"]}[by]
    process = subprocess.Popen(
        [sys.executable, "-m", "sok_compat.run.launch", *options, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a terminal sends SIGINT to all processes of the job
    )
    printed = ""
    while printed.count("is up") < (1 if by == "nothing" else 2):
        printed += process.stdout.read(1)
        assert process.poll() is None
    (os.killpg if to_group else os.kill)(process.pid, number)
    printed, _ = process.communicate(timeout=60)  # until no process of the job has its output open
    assert process.returncode == 128 + number
    assert by == "nothing" or len(printed.splitlines()) <= 6, printed
    assert not os.listdir(tmp_path / "temporary")


MPI = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, sum_of_ranks = world.Get_rank(), world.allreduce(world.Get_rank() + 1)
os.write(1, b"rank %d of %d, sum %d\\n" % (rank, world.Get_size(), sum_of_ranks))  # whole lines
MPI.Finalize()
sys.exit(4 * (rank == 1))
"""


@pytest.mark.skipif(why_no_mpi() is not None, reason=why_no_mpi() or "")
@pytest.mark.parametrize("start, options", [
    (MODULE, ["--mpi", "-np", "2"]), (MODULE, ["-np", "2", "--mpi"]),
    (WITHOUT_HOROVOD, ["-np", "2"]),
])  # fmt: skip
def test_mpiexec_starts_processes_where_it_is_asked_for_or_horovod_is_missing(
    folder, start, options
):
    command = [*options, sys.executable, "-c", MPI]
    status, printed, message = launch(*command, cwd=folder, start=start)
    assert "rank 0 of 2, sum 3" in printed and "rank 1 of 2, sum 3" in printed, message
    assert status == 4


@pytest.mark.parametrize(
    "installed, by_mpi, program",
    [
        ({"horovod", "mpi4py"}, False, "horovod.runner.launch"),
        ({"horovod", "mpi4py"}, True, "mpiexec"),
        ({"mpi4py"}, False, "mpiexec"),
    ],
)
def test_what_starts_processes(monkeypatch, installed, by_mpi, program):
    monkeypatch.setattr(launch_module.shutil, "which", lambda *_, **__: "mpiexec")
    monkeypatch.setattr(
        launch_module.importlib.util, "find_spec", lambda name: name if name in installed else None
    )
    command = launch_module.launcher(2, by_mpi)
    assert program in " ".join(command) and command[-1] == "2"


@pytest.mark.parametrize("by_mpi", [False, True])
def test_what_to_install_is_said(monkeypatch, capsys, by_mpi):
    monkeypatch.setattr(launch_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        launch_module.launcher(2, by_mpi)
    assert "pip install mpich mpi4py" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "command, status",
    [
        (["-c", "raise SystemExit(5)"], 5),
        (["-c", "import os; os.kill(os.getpid(), 9)"], 137),
        (["-c", "print('a b')"], 0),
    ],
)
def test_without_gpus_there_is_one_process(tmp_path, command, status):
    given = [sys.executable, *command]
    assert launch(*given, cwd=tmp_path, CUDA_VISIBLE_DEVICES="-1")[0] == status


@pytest.mark.parametrize("options", [[], ["--bfloat16"]])
def test_options_of_the_launcher_of_scripts_are_passed_on(monkeypatch, options):
    commands = []
    monkeypatch.setattr(launch_module, "run", lambda command, *_: commands.append(command))
    with pytest.raises(SystemExit):
        launch_module.main(["-np", "2", *options, "train.py"])
    assert commands == [[sys.executable, "-m", "sok_compat.run", *options, "train.py"]]


@pytest.mark.parametrize("variables, number", [
    ({"CUDA_VISIBLE_DEVICES": "0,1,5"}, 3),
    ({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b", "NVIDIA_VISIBLE_DEVICES": "all"}, 2),
    ({"CUDA_VISIBLE_DEVICES": ""}, 0),
    ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, 1),
    ({"NVIDIA_VISIBLE_DEVICES": "2,3"}, 2),
    ({"NVIDIA_VISIBLE_DEVICES": "void"}, 0),
])  # fmt: skip
def test_number_of_gpus(variables, number):
    assert num_gpus(variables) == number


@pytest.mark.parametrize("arguments, message", [
    ([], "a command is missing"),
    (["-np", "0", "train.py"], "at least 1, got '0'"),
    (["-np"], "got 'nothing'"),
    (["--np", "2"], "expected a command, got '--np'"),
])  # fmt: skip
def test_what_is_refused(tmp_path, arguments, message):
    status, printed, errors = launch(*arguments, cwd=tmp_path)
    assert (status, printed) == (2, "")
    assert message in errors and "usage: python -m sok_compat.run.launch" in errors


def test_a_command_that_is_not_there(tmp_path):
    status, _, errors = launch("no-such-program", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert status == 127 and "cannot run 'no-such-program'" in errors
