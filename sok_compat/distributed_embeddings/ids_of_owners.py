# SPDX-License-Identifier: Apache-2.0
"""Sends the ids of each rank's part of the batch, by Horovod, to the ranks that look them up.

The layers here do not need it; scripts and tests of distributed-embeddings call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import Ids
from sok_compat.ranks.current_job import start_job


def _dp_to_mp_input(
    dp_inputs: list[Ids] | tuple[Ids, ...] | Mapping[Any, Ids],
    rank_to_local_features: Mapping[int, Sequence[Any]],
) -> dict[Any, Ids]:
    """Returns the ids of the whole batch for the inputs that this rank looks up.

    API of distributed-embeddings. All ranks call it.

    Args:
      dp_inputs: a list or dict {input: ids [local batch, ...]} of tensors or two-dimensional
        tf.RaggedTensors; with equally many samples on all ranks.
      rank_to_local_features: {rank: [inputs that it looks up]}.

    Returns:
      {input: ids [batch of all ranks, ...]}, the samples of rank 0 first. Dense ids are all int64
      if any are, else int32.

    Raises:
      ValueError: a tf.SparseTensor, with several ranks.
    """
    inputs = dict(enumerate(dp_inputs)) if isinstance(dp_inputs, (list, tuple)) else dp_inputs
    job = start_job("_dp_to_mp_input")
    if job.size() == 1:
        return {i: inputs[i] for i in rank_to_local_features[0]}
    if any(isinstance(ids, tf.SparseTensor) for ids in inputs.values()):
        raise ValueError(
            "Sparse tensor data-parallel input is not supported: give it a tf.RaggedTensor"
        )
    found: dict[Any, Ids] = {}
    for is_ragged, send in ((False, _dp_to_mp_input_dense), (True, _dp_to_mp_input_ragged)):
        of_kind = {i: x for i, x in inputs.items() if isinstance(x, tf.RaggedTensor) == is_ragged}
        wanted = {
            rank: [i for i in numbers if i in of_kind]
            for rank, numbers in rank_to_local_features.items()
        }
        found.update(send(of_kind, wanted))
    return found


def _dp_to_mp_input_dense(
    dp_inputs: Mapping[Any, tf.Tensor], rank_to_local_features: Mapping[int, Sequence[Any]]
) -> dict[Any, tf.Tensor]:
    """As _dp_to_mp_input, for a dict of tensors and several ranks. API of distributed-embeddings.

    Args:
      dp_inputs: {input: ids [local batch, ...]}.
      rank_to_local_features: as of _dp_to_mp_input.

    Raises:
      ValueError: dp_inputs is not a dict.
    """
    if not _checked_dict(dp_inputs):
        return {}
    dtype = tf.int64 if any(x.dtype == tf.int64 for x in dp_inputs.values()) else tf.int32
    flat = {i: tf.reshape(tf.cast(ids, dtype), [-1]) for i, ids in dp_inputs.items()}
    received, job = _exchanged(flat, rank_to_local_features, dtype)
    mine = rank_to_local_features[job.rank()]
    sizes = tf.stack([tf.size(flat[i]) for i in mine]) if mine else tf.zeros([0], tf.int32)
    by_rank = tf.reshape(received, [job.size(), tf.reduce_sum(sizes)])
    parts = tf.split(by_rank, sizes, 1, num=len(mine)) if mine else []
    return {
        i: tf.reshape(part, tf.concat([[-1], tf.shape(dp_inputs[i])[1:]], 0))
        for i, part in zip(mine, parts)
    }


def _dp_to_mp_input_ragged(
    dp_inputs: Mapping[Any, tf.RaggedTensor], rank_to_local_features: Mapping[int, Sequence[Any]]
) -> dict[Any, tf.RaggedTensor]:
    """As _dp_to_mp_input, for a dict of tf.RaggedTensors and several ranks.

    API of distributed-embeddings.

    Args:
      dp_inputs: {input: ids [local batch, (ids)]}.
      rank_to_local_features: as of _dp_to_mp_input.

    Raises:
      ValueError: dp_inputs is not a dict.
    """
    if not _checked_dict(dp_inputs):
        return {}
    dtype = next(iter(dp_inputs.values())).dtype
    flat = {i: ids.flat_values for i, ids in dp_inputs.items()}
    lengths = {i: tf.cast(ids.row_lengths(), tf.int64) for i, ids in dp_inputs.items()}
    values, job = _exchanged(flat, rank_to_local_features, dtype)
    row_lengths, _ = _exchanged(lengths, rank_to_local_features, tf.int64)
    mine = rank_to_local_features[job.rank()]
    if not mine:
        return {}
    rows = tf.RaggedTensor.from_row_lengths(values, row_lengths)  # of rank 0, input by input, ...
    places = tf.reshape(tf.range(rows.nrows()), [job.size(), len(mine), -1])
    return {i: tf.gather(rows, tf.reshape(places[:, n], [-1])) for n, i in enumerate(mine)}


def _checked_dict(dp_inputs: Any) -> dict:
    if not isinstance(dp_inputs, dict):
        raise ValueError(f"Expected a dict, got: {type(dp_inputs)}")
    return dp_inputs


def _exchanged(
    flat: Mapping[Any, tf.Tensor],
    rank_to_local_features: Mapping[int, Sequence[Any]],
    dtype: tf.DType,
) -> tuple[tf.Tensor, Any]:
    """(the values that all ranks send to this one, rank after rank; the job)"""
    job = start_job("_dp_to_mp_input")
    numbers = [rank_to_local_features[rank] for rank in range(job.size())]
    sizes = [sum((tf.size(flat[i]) for i in each), tf.constant(0)) for each in numbers]
    sent = tf.concat([tf.zeros([0], dtype), *(flat[i] for each in numbers for i in each)], 0)
    received, _ = job.alltoall(sent, splits=tf.stack(sizes))
    return received, job
