# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.doctor`: right where all is well, and where something is not."""

import os
import stat
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tensorflow as tf

import sok_compat.ranks.horovod.integrations  # noqa: F401  adds Horovod's to the table
from sok_compat import doctor
from sok_compat.runtime import built_libraries, integrations
from sok_compat.runtime.integrations import table_of_changes
from tests.packaging.environments import write_files
from tests.support.saves.undone import integrations_undone


@pytest.mark.thorough
def test_all_is_well_here():
    done = subprocess.run(
        [sys.executable, "-m", "sok_compat.doctor"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("sok_compat ") and last == "Tables can be trained here."
    assert f"_ops-{tf.__version__}.so works" in done.stdout
    assert "broken" not in done.stdout
    assert "functions and classes of other libraries are replaced once there are" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "--changes" in line]
    assert len(line) < 200


@pytest.mark.thorough
def test_the_table_of_changes(capsys):
    assert doctor.main(["--changes"]) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = [line.strip("| ").split(" | ") for line in printed if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == [row[0] for row in table_of_changes()]
    assert all(len(row) == 5 and all(row) for row in rows)


def test_the_changes_of_this_process():
    with integrations_undone():
        assert "| tf.gradients |" not in doctor.changes_of_process()
        integrations.apply("tf.gradients", lambda original: lambda *args, **kwargs: original)
        *table, _, hooks = doctor.changes_of_process().splitlines()
    assert [row.split(" | ")[0] for row in table[2:]] == ["| tf.gradients"]
    assert hooks.startswith("import hooks in sys.meta_path: ") and "_sok_compat_imports" in hooks


@pytest.fixture
def broken_package(tmp_path, monkeypatch):
    """Puts a package that fails to import before all others, for the processes that probe."""

    def put(name, code):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    return put


def test_horovod_of_another_tensorflow(broken_package, monkeypatch):
    broken_package("horovod", "raise ImportError('undefined symbol: _ZN10tensorflow8OpKernel')")
    monkeypatch.setattr(doctor, "_installed_version", lambda name: "0.28.1")
    finding = doctor._horovod(tf.__version__)
    assert finding.status == "missing"
    assert "undefined symbol" in finding.text and "horovod_install.py" in finding.remedy


def test_horovod_that_says_what_it_was_built_for(tmp_path, monkeypatch):
    write_files(
        tmp_path, {"horovod/__init__.py": "", "horovod/metadata.json": '{"tensorflow": "2.15.1"}'}
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "horovod", raising=False)
    monkeypatch.setattr(doctor, "_installed_version", lambda name: "0.28.1")
    finding = doctor._horovod("2.21.0")
    assert finding.status == "missing"
    assert "built for TensorFlow 2.15.1, not for 2.21.0" in finding.text


def test_no_horovod(monkeypatch):
    monkeypatch.setattr(doctor, "_installed_version", lambda name: None)
    finding = doctor._horovod("2.21.0")
    assert finding.status == "missing"
    assert "pip install mpich mpi4py" in finding.remedy  # needs no sources
    assert "horovod_install.py" in finding.remedy


def test_which_sparse_operation_kit_the_script_gets(tmp_path, monkeypatch):
    clone, other = tmp_path / "clone", tmp_path / "other"
    write_files(clone, {"sparse_operation_kit/__init__.py": "", "train.py": ""})
    other.mkdir()
    beside, elsewhere = doctor._import_name(clone / "train.py"), doctor._import_name(other / "x.py")
    assert beside.status == elsewhere.status == "ok"
    assert f"sok_compat's instead of the one in {clone / 'sparse_operation_kit'}" in beside.text
    assert "not built" in beside.text and "instead" not in elsewhere.text
    monkeypatch.setenv("PYTHONPATH", str(clone), prepend=os.pathsep)
    on_the_path = doctor._import_name(other / "x.py")
    assert on_the_path.status == "ok" and str(clone / "sparse_operation_kit") in on_the_path.text
    write_files(clone, {"sparse_operation_kit/lib/ops.so": ""})
    assert doctor._import_name(other / "x.py").status == "missing"
    built = doctor._import_name(clone / "train.py")
    assert built.status == "missing" and str(clone) in built.text
    assert "import sok_compat" in built.remedy


@pytest.mark.thorough
def test_a_library_that_is_not_as_expected(monkeypatch):
    probe = doctor._probe

    def changed(code):
        return probe(f"import tensorflow as tf; tf.compat.v1.train.Saver.restore = 1; {code}")

    monkeypatch.setattr(doctor, "_probe", changed)
    finding = doctor._integrations(has_horovod=False)
    assert finding.status == "broken" and "Saver.restore(self, sess" in finding.text


def test_a_tensorflow_that_kills_python(broken_package):
    broken_package("tensorflow", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    found = doctor._probe("import tensorflow; result = {}")
    assert found == {"error": "Python was ended by signal 4"}
    finding = doctor._tensorflow(found)
    assert finding.status == "broken" and "signal 4" in finding.text


def test_no_tensorflow(monkeypatch):
    monkeypatch.setattr(doctor, "_installed_version", lambda name: None)
    finding = doctor._tensorflow({"error": "No module named 'tensorflow'"})
    assert finding.status == "broken"
    assert f"tensorflow-cpu=={tf.__version__}" in finding.remedy


@pytest.mark.parametrize(
    ("built_for", "version", "words", "way_out"),
    [
        ((), "2.16.1", "built without", "Install TensorFlow"),
        (
            ("2.15.1", "2.9.1"),
            "2.16.1",
            "for TensorFlow 2.9.1, 2.15.1, but 2.16.1",
            "--no-binary sok_compat",
        ),
        (("2.15.1",), "2.14.1", "for TensorFlow 2.15.1, but 2.14.1", "than 2.15 to 2.21"),
        (("2.15.1",), "2.22.0", "for TensorFlow 2.15.1, but 2.22.0", "than 2.15 to 2.21"),
    ],
)
def test_op_library_that_does_not_fit(monkeypatch, built_for, version, words, way_out):
    libraries = {release: Path(f"_ops-{release}.so") for release in built_for}
    monkeypatch.setattr(built_libraries, "built_libraries", lambda: libraries)
    finding = doctor._op_library(version)
    assert finding.status == "broken" and words in finding.text and way_out in finding.text
    assert (way_out == "--no-binary sok_compat") == ("--no-binary sok_compat" in finding.text)


@pytest.mark.parametrize("version", ["2.15.1", "2.15.0", "2.15.0-rc1"])
def test_the_op_library_of_a_release(monkeypatch, version):
    libraries = {release: Path(f"_ops-{release}.so") for release in ("2.1.5", "2.15.1", "2.16.2")}
    monkeypatch.setattr(built_libraries, "built_libraries", lambda: libraries)
    assert built_libraries.library_for(version) == Path("_ops-2.15.1.so")


@pytest.mark.parametrize(
    ("tensorflow", "keras", "status", "words"),
    [
        ("2.15.1", None, "ok", "part of TensorFlow 2.15.1"),
        ("2.18.1", "2.18.0", "ok", "tf-keras 2.18.0"),
        ("2.18.1", None, "missing", "Keras 3"),
        ("2.18.1", "2.16.0", "broken", "tf-keras 2.16.0 is not made for TensorFlow 2.18.1"),
    ],
)
def test_keras_has_to_match(monkeypatch, tensorflow, keras, status, words):
    monkeypatch.setattr(doctor, "_installed_version", lambda name: keras)
    finding = doctor._keras(tensorflow)
    assert finding.status == status and words in finding.text


def test_keras_2_of_a_nightly(monkeypatch):
    versions = {"tf_keras-nightly": "2.22.0.dev2026090510"}
    monkeypatch.setattr(doctor, "_installed_version", versions.get)
    assert doctor._keras("2.22.0-dev20260905").status == "ok"


@pytest.mark.parametrize("tensorflow, protobuf, remedies", [
    ("2.20.0", "7.36.2", ["pip install 'protobuf<7'"]),
    ("2.20.0", "6.33.0", []),
    ("2.21.0", "7.36.2", []),
])  # fmt: skip
def test_protobuf_has_to_match(monkeypatch, tensorflow, protobuf, remedies):
    monkeypatch.setattr(doctor, "_installed_version", lambda name: protobuf)
    assert [finding.remedy for finding in doctor._protobuf(tensorflow)] == remedies


@pytest.mark.parametrize(
    "why, words",
    [("", "built with CUDA"), ("there is no CUDA compiler", "CPU only, because there is no CUDA")],
)
def test_how_the_hash_table_was_built(monkeypatch, why, words):
    monkeypatch.setattr(doctor, "_probe", lambda code: {"rows": [0], "why_no_cuda": why})
    assert words in doctor._engine().text


@pytest.mark.parametrize("is_visible", [True, False])
def test_gpu(monkeypatch, tmp_path, is_visible):
    lister = tmp_path / "nvidia-smi"
    lister.write_text(
        "#!/bin/sh\n" + ("echo 'GPU 0: Some Card'\n" if is_visible else "echo failed; exit 9\n")
    )
    lister.chmod(lister.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    gpu, *rest = doctor._gpus({"version": "2.15.1", "cuda": False, "gpus": 0})
    if not is_visible:
        assert gpu.status == "missing" and "--gpus all" in gpu.remedy and not rest
        return
    assert gpu.status == "ok" and "Some Card" in gpu.text
    assert "without CUDA" in rest[0].text and "tensorflow[and-cuda]==2.15.1" in rest[0].remedy


def test_shared_memory(monkeypatch):
    assert "SOK_SHARED_MEMORY=0 turns it off" in doctor._shared_memory().text
    monkeypatch.setattr(doctor.os, "getpid", lambda: 2**22)  # no process has this id
    finding = doctor._shared_memory()
    assert finding.status == "missing" and "No such file" in finding.text
    assert "one container" in finding.remedy and "SOK_SHARED_MEMORY=0" in finding.remedy
    monkeypatch.setenv("SOK_SHARED_MEMORY", "0")
    assert doctor._shared_memory().text.startswith("off by SOK_SHARED_MEMORY=0")


@pytest.mark.parametrize(
    ("mebibytes", "status", "words"), [(64, "missing", "small: 64 MiB"), (2048, "ok", "2,048 MiB")]
)
def test_size_of_dev_shm(monkeypatch, mebibytes, status, words):
    blocks = mebibytes * 256
    found = types.SimpleNamespace(f_frsize=4096, f_blocks=blocks, f_bavail=blocks - 1)
    monkeypatch.setattr(doctor.os, "statvfs", lambda path: found)
    finding = doctor._dev_shm()
    assert (finding.status, "--shm-size" in finding.remedy) == (status, status == "missing")
    assert finding.text.startswith(words)


def test_a_script_that_is_not_there(capsys):
    with pytest.raises(SystemExit):
        doctor.main(["nowhere.py"])
    assert "there is no script nowhere.py" in capsys.readouterr().err


def test_something_broken_is_told_by_the_status(monkeypatch, capsys):
    broken = doctor.Finding("broken", "op library", "not there", "build it")
    monkeypatch.setattr(doctor, "examine", lambda script: [broken])
    assert doctor.main() == 1
    printed = capsys.readouterr().out
    assert "To get it: build it" in printed and "Training cannot start." in printed
