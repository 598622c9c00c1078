# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit 2 in eager mode, started for each test and ended with the tests of a file."""

import pytest

from tests.support.horovod_state import shut_down_horovod


@pytest.fixture
def sok(monkeypatch):
    """The package under SparseOperationKit's name, after sok.init()."""
    from sok_compat import sparse_operation_kit
    from sok_compat.runtime.tf_versions import keras_of_layers as keras

    keras.backend.clear_session()  # names start over
    monkeypatch.setattr(sparse_operation_kit.communication, "_comm_tool", None)
    sparse_operation_kit.init()
    return sparse_operation_kit


@pytest.fixture(autouse=True, scope="module")
def horovod_is_shut_down():
    yield
    shut_down_horovod()
