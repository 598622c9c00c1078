# SPDX-License-Identifier: Apache-2.0
"""The stand-in package in environments of its own, as a wheel and editable; a script of cmake/."""

import pytest

from tests.packaging.environments import REPOSITORY, Environment, install, write_stub_project


@pytest.fixture(scope="session")
def stub_project(tmp_path_factory):
    """The build files of this repository around a package without native parts."""
    project = tmp_path_factory.mktemp("project")
    write_stub_project(project)
    return project


@pytest.fixture
def empty_environment(tmp_path):
    return Environment(tmp_path / "venv")


@pytest.fixture(scope="session", params=["wheel", "editable"])
def environment(request, tmp_path_factory, stub_project):
    """An environment with the stand-in package installed; to be left as it is."""
    directory = tmp_path_factory.mktemp(request.param)
    return install(Environment(directory / "venv"), request.param, stub_project)


@pytest.fixture(params=["wheel", "editable"])
def own_environment(request, empty_environment, stub_project):
    """As above, but for one test, which may change it."""
    return install(empty_environment, request.param, stub_project)


@pytest.fixture
def tensorflow_install(monkeypatch):
    """cmake/tensorflow_install.py as a module."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "cmake"))
    import tensorflow_install

    return tensorflow_install
