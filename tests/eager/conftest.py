# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests in eager mode."""

import pytest


@pytest.fixture
def sok(monkeypatch):
    """The package, with Init called in eager mode for this test alone; seed 7."""
    import sok_compat
    from sok_compat.runtime.tf_versions import keras_of_layers as keras
    from sok_compat.sparse_operation_kit.core import initialization

    keras.backend.clear_session()  # names start over
    monkeypatch.setattr(initialization, "_eager_initialization", None)  # and put back after
    sok_compat.Init(global_batch_size=8, seed=7)
    yield sok_compat
    keras.backend.clear_session()  # and the learning phase
