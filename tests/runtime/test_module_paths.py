# SPDX-License-Identifier: Apache-2.0
"""Every path under which existing scripts import the API leads to the same objects."""

import importlib

import pytest

import sok_compat

PATHS = [
    ("Init", "core.initialize.Init"),
    ("Init", "core.Init"),
    ("OptimizerScope", "core.context_scope.OptimizerScope"),
    ("GraphKeys", "core.graph_keys.GraphKeys"),
    ("DistributedEmbedding", "embeddings.distributed_embedding.DistributedEmbedding"),
    ("DistributedEmbedding", "embeddings.DistributedEmbedding"),
    ("All2AllDenseEmbedding", "embeddings.all2all_dense_embedding.All2AllDenseEmbedding"),
    ("All2AllDenseEmbedding", "embeddings.All2AllDenseEmbedding"),
    ("Saver", "saver.Saver.Saver"),
    ("split_embedding_variable_from_others",
     "optimizers.utils.split_embedding_variable_from_others"),
    ("split_embedding_variable_from_others", "optimizers.split_embedding_variable_from_others"),
    ("optimizers.Adam", "optimizers.adam.Adam"),
    ("tf.keras.optimizers.Adam", "tf.keras.optimizers.adam.Adam"),
    ("tf.keras.optimizers.LazyAdamOptimizer", "tf.keras.optimizers.lazy_adam.LazyAdamOptimizer"),
    ("core.EmbeddingVariable", "core.EmbeddingVariable"),
    ("__version__", "core._version.__version__"),
]  # fmt: skip


@pytest.mark.parametrize("attribute, path", PATHS)
def test_path(attribute, path):
    expected = sok_compat
    for name in attribute.split("."):  # as scripts reach it: sok.tf.keras.optimizers.Adam
        expected = getattr(expected, name)
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"sok_compat.{module}"), name) is expected


@pytest.mark.parametrize("attribute, path", [p for p in PATHS if "version" not in p[0]])
def test_names_start_with_a_docstring(attribute, path):
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"sok_compat.{module}"), name).__doc__


def test_root_lists_its_names():
    for name in sok_compat.__all__:
        assert getattr(sok_compat, name) is not None
        assert name in dir(sok_compat)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sok_compat.no_such_name
