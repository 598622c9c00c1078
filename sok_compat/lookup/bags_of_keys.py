# SPDX-License-Identifier: Apache-2.0
"""Splits sparse and ragged bags into keys and checked row splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sok_compat.lookup.dense_tables import split_sparse, tables_are_dense
from sok_compat.runtime.op_library import ops


@dataclasses.dataclass(frozen=True, eq=False)
class BagsOfKeys:
    """The bags of one lookup of a group.

    bags: tf.SparseTensor [batch * bags_per_sample, max_nnz] in row order, or tf.RaggedTensor
      [batch * bags_per_sample, (keys)] or [batch, bags_per_sample, (keys)].
    name: of the layer, for messages.
    bags_per_sample: number of bags in a sample.
    name_of_number: of bags_per_sample, for messages.
    max_nnz: most keys in a bag; 0: any number.
    weights: of the keys, float32 with the form and indices of bags; or None.
    """

    bags: Any
    name: str
    bags_per_sample: int = 1
    max_nnz: int = 0
    weights: Any = None
    name_of_number: str = "bags_per_sample"


class SplitKeys(NamedTuple):
    """Bags as `Lookup` takes them: keys [num_keys], row_splits int64 [num_bags + 1], weights."""

    keys: tf.Tensor
    row_splits: tf.Tensor
    weights: tf.Tensor | None = None


def split_bags(group: Sequence[BagsOfKeys]) -> list[SplitKeys]:
    """Returns the `SplitKeys` of each BagsOfKeys: keys, row splits and weights; one op checks each
    form.

    Raises:
      TypeError: bags are neither a SparseTensor nor a RaggedTensor, or weights have another form.
      ValueError: bags have a wrong rank.
      tf.errors.InvalidArgumentError: when run: the number of bags is not a multiple of those of a
        sample; a bag has more than max_nnz keys; a SparseTensor has unsorted rows, or not one value
        for each index; row splits of a RaggedTensor do not ascend from 0 to its number of values;
        weights have other indices than the keys.
    """
    forms = [_form_of(one) for one in group]
    weights = checked_weights(group)
    if tables_are_dense():
        return [_split_by_tensorflow(*one) for one in zip(forms, weights)]
    checks = [check for form in forms for check in form.checks]
    sparse = [check for check in checks if check.dense_shape is not None]
    ragged = [check for check in checks if check.dense_shape is None]
    splits = dict(zip(sparse, _sparse_splits(sparse)))
    splits.update(zip(ragged, _ragged_splits(ragged)))
    return [
        SplitKeys(form.keys, splits[form.gives_splits], values)
        for form, values in zip(forms, weights)
    ]


def checked_weights(group: Sequence[BagsOfKeys]) -> list[tf.Tensor | None]:
    """Returns the weights, float32 [num_keys] or None, of each BagsOfKeys, checked by one op.

    SparseTensors may be of any rank.

    Raises:
      TypeError: weights are not float32, or have another form than the bags.
      tf.errors.InvalidArgumentError: when run: weights have other indices than the keys.
    """
    weights = [_values_of_weights(one) for one in group]
    weighted = [i for i, values in enumerate(weights) if values is not None]
    if not weighted or tables_are_dense():
        return weights
    ids = [_places_and_shape(group[i].bags) for i in weighted]
    places = [_places_and_shape(group[i].weights) for i in weighted]
    checked = ops.sok_checked_weights(
        weights=[weights[i] for i in weighted],
        places=[each for each, _ in places],
        shapes=[shape for _, shape in places],
        places_of_ids=[each for each, _ in ids],
        shapes_of_ids=[shape for _, shape in ids],
        names=[group[i].name for i in weighted],
    )
    for i, values in zip(weighted, checked):
        weights[i] = values
    return weights


@tf.RegisterGradient("SokCheckedWeights")
def _gradient_of_checked_weights(op, *gradients):
    """Goes on to the weights: lookups that TensorFlow pools may train them."""
    return [*gradients, *[None] * (len(op.inputs) - len(gradients))]


@dataclasses.dataclass(frozen=True, eq=False)
class _Check:
    """One item of a checking op: the splits or indices of some values."""

    bags: BagsOfKeys
    places: tf.Tensor  # indices, or row splits
    values: tf.Tensor
    dense_shape: tf.Tensor | None = None  # of a SparseTensor
    are_samples: bool = False  # the splits divide bags, not keys


@dataclasses.dataclass(frozen=True, eq=False)
class _Form:
    keys: tf.Tensor
    gives_splits: _Check
    samples: _Check | None = None

    @property
    def checks(self) -> list[_Check]:
        return [check for check in (self.samples, self.gives_splits) if check is not None]


def _split_by_tensorflow(form: _Form, weights: tf.Tensor | None) -> SplitKeys:
    check = form.gives_splits
    splits = check.places
    if check.dense_shape is not None:
        splits = split_sparse(check.places, check.dense_shape, check.bags.bags_per_sample)
    return SplitKeys(form.keys, tf.cast(splits, tf.int64), weights)


def _form_of(one: BagsOfKeys) -> _Form:
    if isinstance(one.bags, tf.RaggedTensor):
        return _ragged(one)
    if isinstance(one.bags, tf.SparseTensor):
        return _sparse(one)
    raise TypeError(
        f"{one.name}: sp_ids must be SparseTensor or RaggedTensor, got {type(one.bags).__name__}"
    )


def _sparse(one: BagsOfKeys) -> _Form:
    bags = one.bags
    if bags.shape.rank not in (None, 2):
        raise ValueError(
            f"{one.name}: the SparseTensor must have rank 2, [bags, most keys of a bag], got rank "
            f"{bags.shape.rank}"
        )
    return _Form(bags.values, _Check(one, bags.indices, bags.values, bags.dense_shape))


def _ragged(one: BagsOfKeys) -> _Form:
    bags = one.bags
    if bags.flat_values.shape.rank != 1 or bags.ragged_rank > 2:
        raise ValueError(
            f"{one.name}: the RaggedTensor must be [bags, (keys)] or [samples, bags of a sample, "
            f"(keys)], got shape {bags.shape} with ragged rank {bags.ragged_rank}"
        )
    keys, splits = bags.flat_values, bags.nested_row_splits
    samples = None
    if len(splits) == 2:
        samples = _Check(one, splits[0], splits[1][1:], are_samples=True)
    return _Form(keys, _Check(one, splits[-1], keys), samples)


def _values_of_weights(one: BagsOfKeys) -> tf.Tensor | None:
    weights = one.weights
    if weights is None:
        return None
    if type(weights) is not type(one.bags):
        raise TypeError(
            f"{one.name}: sp_weights must have the form of sp_ids, {type(one.bags).__name__}, got "
            f"{type(weights).__name__}"
        )
    if weights.dtype != tf.float32:
        raise TypeError(f"{one.name}: sp_weights must be float32, got {weights.dtype.name}")
    return weights.flat_values if isinstance(weights, tf.RaggedTensor) else weights.values


def _places_and_shape(bags: tf.SparseTensor | tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the indices or row splits, and the shape, for SokCheckedWeights."""
    if isinstance(bags, tf.SparseTensor):
        return bags.indices, bags.dense_shape
    splits = [tf.cast(each, tf.int64) for each in bags.nested_row_splits]
    return splits[0] if len(splits) == 1 else tf.concat(splits, 0), tf.constant([], tf.int64)


def _sparse_splits(checks: Sequence[_Check]) -> list[tf.Tensor]:
    if not checks:
        return []
    return ops.sok_row_splits(
        indices=[check.places for check in checks],
        dense_shape=[check.dense_shape for check in checks],
        **_lengths_and_limits(checks),
    )


def _ragged_splits(checks: Sequence[_Check]) -> list[tf.Tensor]:
    if not checks:
        return []
    return ops.sok_checked_splits(
        row_splits=[check.places for check in checks],
        are_samples=[check.are_samples for check in checks],
        N=len(checks),
        **_lengths_and_limits(checks),
    )


def _lengths_and_limits(checks: Sequence[_Check]) -> dict[str, list]:
    return {
        "values": [check.values for check in checks],
        "layer_names": [check.bags.name for check in checks],
        "bags_per_sample": [check.bags.bags_per_sample for check in checks],
        "names_of_number": [check.bags.name_of_number for check in checks],
        "max_nnzs": [check.bags.max_nnz for check in checks],
    }
