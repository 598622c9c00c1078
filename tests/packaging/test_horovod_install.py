# SPDX-License-Identifier: Apache-2.0
"""How Horovod is built: what is left out for which TensorFlow, and what reaches the build."""

import tarfile

import pytest

from tests.packaging.environments import REPOSITORY, write_files

CMAKE_LISTS = """\
list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/mpi_ops.cc")
list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")
add_library(${TF_TARGET_LIB} SHARED ${SOURCES} ${TF_SOURCES})
"""


@pytest.fixture
def horovod_install(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "cmake"))
    import horovod_install

    return horovod_install


def test_only_the_line_of_the_ops_for_xla_is_left_out(horovod_install, tmp_path):
    path = horovod_install.SOURCES_FOR_TENSORFLOW
    write_files(tmp_path, {f"horovod-0.28.1/{path}": CMAKE_LISTS})
    archive = tmp_path / "downloads" / "horovod-0.28.1.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "horovod-0.28.1", "horovod-0.28.1")
    sources = horovod_install.unpack(archive)
    horovod_install.leave_out_xla(sources)
    before, after = CMAKE_LISTS.splitlines(), (sources / path).read_text().splitlines()
    assert after == [before[0], before[2]]
    with pytest.raises(ValueError, match="xla_mpi_ops.cc in one line"):
        horovod_install.leave_out_xla(sources)


@pytest.mark.parametrize("version, has_xla", [("2.18.1", True), ("2.19.0", False)])
def test_which_tensorflow_has_it(horovod_install, version, has_xla):
    assert horovod_install.tensorflow_install.has_horovod_xla(version) == has_xla


def test_mpi_comes_beside_gloo(horovod_install):
    environment = horovod_install.build_environment({}, has_mpi=True)
    assert environment["HOROVOD_WITH_MPI"] == environment["HOROVOD_WITH_GLOO"] == "1"
    assert "HOROVOD_WITHOUT_MPI" not in environment


@pytest.mark.parametrize("chosen", [{}, {"HOROVOD_GPU_OPERATIONS": "NCCL"}])
def test_a_choice_of_the_caller_replaces_all_defaults(horovod_install, chosen):
    environment = horovod_install.build_environment({"PATH": "/usr/bin", "HOME": "/root", **chosen})
    assert environment.pop("PATH").endswith(":/usr/bin")
    assert environment == {"HOME": "/root", **(chosen or horovod_install.DEFAULTS)}
