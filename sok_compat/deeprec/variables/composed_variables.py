# SPDX-License-Identifier: Apache-2.0
"""Variables whose rows are made of rows of several: multihash and dynamic-dimension variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.lookup.keys import integer_keys

tf1 = tf.compat.v1

_OPERATIONS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "add": tf.add,
    "concat": lambda quotients, remainders: tf.concat([quotients, remainders], -1),
    "mul": tf.multiply,
    "mult": tf.multiply,  # so in DeepRec's documents
}


class MultiHashVariable:
    """A row for every id from two small variables: those of its quotient and its remainder.

    Made by get_multihash_variable. tf.nn's lookups take it.

    Attributes:
      name: its name; the variables are '<name>/quotients' and '<name>/remainders'.
      val_list: (quotients, remainders), ordinary variables.
      operation: 'add', 'mul', 'mult' or 'concat'.
    """

    def __init__(self, name: str, val_list: tuple[Any, Any], operation: str) -> None:
        self.name, self.val_list, self.operation = name, val_list, operation

    @property
    def dtype(self) -> tf.DType:
        """Of its variables."""
        return self.val_list[0].dtype.base_dtype

    @property
    def shape(self) -> tf.TensorShape:
        """[floats in a row]"""
        dims = [variable.shape.as_list()[1] for variable in self.val_list]
        return tf.TensorShape([sum(dims) if self.operation == "concat" else dims[0]])

    def get_shape(self) -> tf.TensorShape:
        """[floats in a row]"""
        return self.shape

    def checked_ids(self, ids: Any) -> tf.Tensor:
        """The ids as int64.

        Raises:
          TypeError: they are not integers.
        """
        return integer_keys(ids, f"ids of {self.name}", "tf.nn.embedding_lookup_sparse")

    def sparse_read(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """The row of each id: those of id // q, modulo q, and of id % r.

        q and r are the rows of quotients and of remainders. Quotients from q on, for which DeepRec
        raises on a CPU, share rows with others: its own models have such ids.

        Args:
          indices: integers of any shape.

        Returns:
          [*shape of the ids, floats in a row].

        Raises:
          TypeError: ids are not integers.
        """
        quotients, remainders = self.val_list
        num_quotients, num_remainders = (each.shape.as_list()[0] for each in self.val_list)
        with tf.name_scope(name or "multihash_lookup"):
            ids = self.checked_ids(indices)
            found = (
                tf1.nn.embedding_lookup(variable, ids_of_variable, partition_strategy="div")
                for variable, ids_of_variable in (
                    (quotients, (ids // num_quotients) % num_quotients),
                    (remainders, ids % num_remainders),
                )
            )
            return _OPERATIONS[self.operation](*found)


def get_multihash_variable(
    name: str,
    dims: Sequence[Sequence[int]],
    num_of_partitions: int = 2,
    complementary_strategy: str = "Q-R",
    operation: str = "add",
    *of_variables: Any,
    **named: Any,
) -> MultiHashVariable:
    """A variable for many ids in the memory of two small ones. API of DeepRec.

    Other arguments are those of tf.get_variable from `dtype` on; it makes or finds both variables.

    Args:
      name: name in the current variable scope.
      dims: [[rows, floats in a row], [rows, floats in a row]] of quotients and remainders.
      num_of_partitions: 2.
      complementary_strategy: 'Q-R': see MultiHashVariable.sparse_read.
      operation: 'add' or 'mul', of rows of equal size, or 'concat'.

    Returns:
      A MultiHashVariable; lookups of TensorFlow and DeepRec take it.

    Raises:
      ValueError: another strategy, number of partitions or operation; dims that do not fit it.
    """
    shapes = check_multihash(name, dims, num_of_partitions, complementary_strategy, operation)
    variables = [
        tf1.get_variable(f"{name}/{part}", shape, *of_variables, **named)
        for part, shape in zip(("quotients", "remainders"), shapes)
    ]
    return MultiHashVariable(name, (variables[0], variables[1]), operation)


def check_multihash(
    name: str, dims: Sequence[Sequence[int]], num_of_partitions: int, strategy: str, operation: str
) -> list[list[int]]:
    """Returns the shapes of quotients and remainders.

    Raises:
      ValueError: an argument of get_multihash_variable is out of range.
    """
    if strategy != "Q-R" or num_of_partitions != 2:
        raise ValueError(
            f"{name}: the complementary_strategy must be 'Q-R', of 2 partitions, got "
            f"{strategy!r} of {num_of_partitions}"
        )
    if operation not in _OPERATIONS:
        raise ValueError(f"{name}: operation must be one of {[*_OPERATIONS]}, got {operation!r}")
    shapes = [[int(size) for size in shape] for shape in dims]
    fits = len(shapes) == 2 and all(len(shape) == 2 and min(shape) >= 1 for shape in shapes)
    if not fits or (operation != "concat" and shapes[0][1] != shapes[1][1]):
        raise ValueError(
            f"{name}: dims must be [[rows, dim], [rows, dim]], with one dim unless the operation "
            f"is 'concat', got {dims!r} for {operation!r}"
        )
    return shapes


class DynamicEmbeddingVariable:
    """An embedding variable whose rows have as many blocks as each lookup asks for.

    Made by get_dynamic_dimension_embedding_variable. tf.nn.embedding_lookup takes it.

    Attributes:
      name: its name; block i is the embedding variable '<name>/block<i>'.
      blocks: embedding variables.
    """

    def __init__(
        self, name: str, blocks: Sequence[EmbeddingVariable | PartitionedEmbeddingVariable]
    ) -> None:
        self.name, self.blocks = name, list(blocks)

    @property
    def shape(self) -> tf.TensorShape:
        """[floats in a row of all blocks]"""
        return tf.TensorShape([len(self.blocks) * self.blocks[0].shape.as_list()[0]])

    def lookup(self, ids: Any, blocknums: Any) -> tf.Tensor:
        """The first blocks of each id's row, and zeros in the place of others.

        A block that is not read gets no row for the id, and no gradient.

        Args:
          ids: integers [n].
          blocknums: integers [n], how many blocks of each id to read.

        Returns:
          float32 [n, floats in a row].

        Raises:
          ValueError: blocknums is None.
        """
        if blocknums is None:
            raise ValueError(
                f"a lookup in the dynamic-dimension variable {self.name} needs blocknums, the "
                "number of blocks to read of each id, got None"
            )
        ids = self.blocks[0].checked_ids(ids)
        blocknums = tf.reshape(blocknums, tf.shape(ids))
        rows = []
        for number, block in enumerate(self.blocks):
            is_read = blocknums > tf.cast(number, blocknums.dtype)
            read = block.sparse_read(tf.boolean_mask(ids, is_read))
            size = tf.concat([tf.shape(ids, tf.int64), block.shape.as_list()], 0)
            rows.append(tf.scatter_nd(tf.where(is_read), read, size))
        found = tf.concat(rows, -1)
        found.set_shape(ids.shape.concatenate(self.shape))
        return found


def get_dynamic_dimension_embedding_variable(
    name: str,
    embedding_block_dimension: float,
    embedding_block_num: int,
    *of_blocks: Any,
    **named: Any,
) -> DynamicEmbeddingVariable:
    """An embedding variable whose rows grow by blocks. API of DeepRec.

    Look it up with `blocknums` of tf.nn.embedding_lookup. Other arguments are those of
    get_embedding_variable from `key_dtype` on; it makes or finds each block.

    Args:
      name: name in the current variable scope.
      embedding_block_dimension: floats in a block, a whole number.
      embedding_block_num: number of blocks, at least 1.

    Returns:
      A DynamicEmbeddingVariable: the blocks, each an embedding variable.

    Raises:
      ValueError: a number out of range; as get_embedding_variable.
    """
    dim, num_blocks = _checked_blocks(name, embedding_block_dimension, embedding_block_num)
    blocks = [
        get_embedding_variable(f"{name}/block{number}", dim, *of_blocks, **named)
        for number in range(num_blocks)
    ]
    return DynamicEmbeddingVariable(name, blocks)


def _checked_blocks(name: str, dimension: Any, num_blocks: Any) -> tuple[int, int]:
    try:
        dim, count = int(dimension), operator.index(num_blocks)
    except (TypeError, ValueError):
        dim = count = 0
    if count < 1 or dim < 1 or dim != dimension:
        raise ValueError(
            f"{name}: embedding_block_dimension and embedding_block_num must be whole numbers, at "
            f"least 1, got {dimension!r} and {num_blocks!r}"
        )
    return dim, count
