# SPDX-License-Identifier: Apache-2.0
"""Misspelt keyword arguments of public callables that take **kwargs."""

import functools
import inspect
import json
import sys

import pytest

import sok_compat as sok
from sok_compat import distributed_embeddings as de
from sok_compat.deeprec.collective.sessions_of_ranks import monitored_training_session
from sok_compat.deeprec.lookups.pipelining import staged
from sok_compat.deeprec.optimizer_rules.adagrad_decay_optimizers import AdagradDecayOptimizerV2
from sok_compat.deeprec.variables.options import CounterFilter
from sok_compat.deeprec.variables.storage_option import StorageOption
from sok_compat.sparse_operation_kit.core import EmbeddingVariable
from sok_compat.sparse_operation_kit.embeddings.tf_distributed_embedding import (
    TFDistributedEmbedding,
)
from tests.support.processes.subprocess_python import run_python

MISSPELT = [
    (sok.DistributedEmbedding, "embedding_size", "embedding_vec_size"),
    (sok.DistributedEmbedding, "max_vocabulary_size", "max_vocabulary_size_per_gpu"),
    (sok.All2AllDenseEmbedding, "use_hash_table", "use_hashtable"),
    (sok.All2AllDenseEmbedding, "nmae", "name"),
    (TFDistributedEmbedding, "vocab_size", "vocabulary_size"),
    (EmbeddingVariable, "initialiser", "initializer"),
    (sok.optimizers.Adam, "learnin_rate", "learning_rate"),
    (sok.optimizers.Adam, "clip_norm", "clipnorm"),
    (sok.All2AllDenseEmbedding, "nnz", "nnz_per_slot"),
    (sok.Variable, "initialvalue", "initial_value"),
    (sok.Variable, "mod", "mode"),
    (sok.DynamicVariable, "dim", "dimension"),
    (sok.DynamicVariable, "dimensions", "dimension"),
    (sok.DynamicVariable, "init_capasity", "init_capacity"),
    (de.DistributedEmbedding, "column_slice_treshold", "column_slice_threshold"),
    (de.Embedding, "output_dims", "output_dim"),
    (de.IntegerLookup, "max_token", "max_tokens"),
    (functools.partial(staged, 0), "num_thread", "num_threads"),
    (StorageOption, "storage_sizes", "storage_size"),
    (CounterFilter, "filter_frq", "filter_freq"),
    (monitored_training_session, "save_checkpoints_sec", "save_checkpoint_secs"),
    (AdagradDecayOptimizerV2, "accumulator_decay_stp", "accumulator_decay_step"),
]


@pytest.mark.parametrize("make, word, meant", MISSPELT, ids=[word for _, word, _ in MISSPELT])
def test_misspelt_words(graph, make, word, meant):
    with pytest.raises(TypeError, match=f"has no argument '{word}': did you mean '{meant}'"):
        make(**{word: 1})


@pytest.mark.parametrize("made", [sok.Init, sok.Variable, *(make for make, _, _ in MISSPELT[::3])])
def test_signatures_have_names(made):
    function = made.__init__ if inspect.isclass(made) else made
    named = [*inspect.signature(function).parameters]
    assert len(named) > 2 and named[0] not in ("args", "kwargs")


@pytest.mark.parametrize("face", ["sparse_operation_kit", "distributed_embeddings", "deeprec"])
def test_all_public_callables_refuse_misspelt_words(face):
    printed = run_python(f"""
        from tests.support.misspelt_words import errors_of
        errors_of("sok_compat.{face}")
    """)
    errors = json.loads(printed.splitlines()[-1])
    assert len(errors) >= 10
    for name, (word, error) in errors.items():
        assert error.startswith("TypeError: ") and word in error, (name, error)
        if sys.version_info >= (3, 13):  # else Python's own errors name no other word
            assert "did you mean" in error.lower(), (name, error)
