# SPDX-License-Identifier: Apache-2.0
"""Arguments that no lookup of the three APIs takes: each names itself, with its value."""

import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups import stock_lookups
from sok_compat.deeprec.lookups.group_lookup import (
    group_embedding_lookup,
    group_embedding_lookup_sparse,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import (
    embedding_lookup as ordinary_lookup,
)
from sok_compat.sparse_operation_kit.embeddings.embedding_ops import (
    embedding_lookup,
    embedding_lookup_sparse,
)


def bags(values=(1, 2, 3), dtype=tf.int64):
    return tf.RaggedTensor.from_row_splits(tf.constant(values, dtype), [0, 2, 3])


@pytest.mark.parametrize("call, error, message", [
    *((lambda v, is_one=is_one: group_embedding_lookup_sparse([v], [bags()], is_sequence=is_one,
                                                              combiners=["sum"]),
       ValueError, f"is_sequence must be True or False, got {is_one!r}") for is_one in (3, "yes")),
    (lambda v: group_embedding_lookup_sparse([v], [bags(dtype=tf.float32)], ["sum"]),
     TypeError, "ids of the embedding variable v must be integers, got float32"),
    *((lambda v, ids=ids: group_embedding_lookup([v], [ids()]), TypeError, f"here, got {name}")
      for ids, name in ((bags, "RaggedTensor"), (lambda: bags().to_sparse(), "SparseTensor"))),
    (lambda v: group_embedding_lookup([tf.ones([9, 2])], [bags()]), TypeError,
     r"ids\[0\] must be a dense tensor here, got RaggedTensor: use .*_sparse to pool"),
    (lambda v: stock_lookups.embedding_lookup(v, bags()), TypeError, "tensor here, got Rag"),
    (lambda v: stock_lookups.safe_embedding_lookup_sparse(v, bags()), TypeError,
     "sparse_ids must be SparseTensor, got RaggedTensor"),
    (lambda v: ordinary_lookup(tf.ones([3]), [[1]], "sum"), ValueError,
     r"param must be \[rows, width\], got the shape \(3,\)"),
    (lambda v: ordinary_lookup(tf.ones([3, 2], tf.int32), [[1]], "sum"), TypeError,
     "param must have floats, got int32"),
    *((lambda v, size=size: Embedding(size, 2), ValueError, f"positive, found {size!r} and 2; both")
      for size in (0, 2.5, "3")),
    (lambda v: embedding_lookup_sparse(5, bags(), 1), TypeError, "the table of a layer, got 5"),
])  # fmt: skip
def test_bad_arguments(graph, call, error, message):
    with pytest.raises(error, match=message):
        call(get_embedding_variable("v", 2))


def test_bad_arguments_of_layers(sok):
    pooling = sok.DistributedEmbedding("sum", 9, 2, slot_num=1, max_nnz=3).embedding_variable
    for slot_num in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match=f"slot_num must be an int >= 1, got {slot_num}"):
            embedding_lookup_sparse(pooling, bags(), slot_num)
    dense = sok.All2AllDenseEmbedding(9, 2, slot_num=1, nnz_per_slot=1).embedding_variable
    with pytest.raises(ValueError, match="dynamic_input must be True or False, got 'no'"):
        embedding_lookup(dense, tf.constant([[[1]]], tf.int64), True, "no")
