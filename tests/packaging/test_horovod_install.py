# SPDX-License-Identifier: Apache-2.0
"""How Horovod is built: what is left out for which TensorFlow, and what reaches the build."""

import tarfile

import pytest

from tests.packaging.environments import REPOSITORY, write_files

CMAKE_LISTS = """\
string(REPLACE "-O2" "-O3" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
    add_subdirectory(third_party/gloo)
add_subdirectory(horovod/tensorflow)
"""
OF_TENSORFLOW = """\
list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/mpi_ops.cc")
list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")
add_library(${TF_TARGET_LIB} SHARED ${SOURCES} ${TF_SOURCES})
"""


@pytest.fixture
def horovod_install(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "cmake"))
    import horovod_install

    return horovod_install


@pytest.fixture
def sources(horovod_install, tmp_path):
    """The unpacked archive."""
    names = {"CMakeLists.txt": CMAKE_LISTS, "horovod/tensorflow/CMakeLists.txt": OF_TENSORFLOW}
    write_files(tmp_path, {f"horovod-0.28.1/{name}": text for name, text in names.items()})
    archive = tmp_path / "downloads" / "horovod-0.28.1.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "horovod-0.28.1", "horovod-0.28.1")
    return horovod_install.unpack(archive)


@pytest.mark.parametrize("chosen", [{}, {"HOROVOD_GPU_OPERATIONS": "NCCL"}])
@pytest.mark.parametrize("version, has_xla", [("2.18.1", True), ("2.19.0", False)])
def test_which_lines_of_its_build_are_replaced(horovod_install, sources, version, has_xla, chosen):
    for change in horovod_install.changes_for(version, chosen):
        horovod_install.replace_line(sources, *change)
    of_c, of_cxx, gloo, rest = (sources / "CMakeLists.txt").read_text().splitlines()
    assert [of_c, rest] == CMAKE_LISTS.splitlines()[::3]
    assert of_cxx == 'set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")'
    assert gloo == "add_subdirectory(third_party/gloo EXCLUDE_FROM_ALL)"
    ops, xla, library, *properties = (
        (sources / "horovod/tensorflow/CMakeLists.txt").read_text().splitlines()
    )
    assert [ops, library] == OF_TENSORFLOW.splitlines()[::2]
    assert bool(xla) == has_xla
    assert len(properties) == (0 if chosen else 2)
    assert ("UNITY_BUILD ON" in "".join(properties)) == (not chosen)


def test_a_line_that_is_not_there_is_an_error(horovod_install, sources):
    horovod_install.replace_line(sources, *horovod_install.WITHOUT_XLA)
    with pytest.raises(ValueError, match="xla_mpi_ops.cc in 0 lines, not 1"):
        horovod_install.replace_line(sources, *horovod_install.WITHOUT_XLA)


def test_mpi_comes_beside_gloo(horovod_install):
    environment = horovod_install.build_environment({}, has_mpi=True)
    assert environment["HOROVOD_WITH_MPI"] == environment["HOROVOD_WITH_GLOO"] == "1"
    assert "HOROVOD_WITHOUT_MPI" not in environment


@pytest.mark.parametrize("chosen", [{}, {"HOROVOD_GPU_OPERATIONS": "NCCL"}])
def test_a_choice_of_the_caller_replaces_all_defaults(horovod_install, chosen):
    environment = horovod_install.build_environment({"PATH": "/usr/bin", "HOME": "/root", **chosen})
    assert environment.pop("PATH").endswith(":/usr/bin")
    assert environment == {"HOME": "/root", **(chosen or horovod_install.DEFAULTS)}
