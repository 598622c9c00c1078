# SPDX-License-Identifier: Apache-2.0
"""The stand-in package, installed as a wheel and editable, each into an environment of its own."""

import pytest

from tests.packaging.environments import Environment, install, write_stub_project


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
