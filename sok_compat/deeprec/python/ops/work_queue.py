# SPDX-License-Identifier: Apache-2.0
"""`WorkQueue`: work items, mostly file names, split over ranks and read one by one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.ranks.identity import current_ranks, random_seed
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.tf_versions import silence_deprecation

_logger = logging.getLogger("sok_compat")
_CAPACITY = 1  # of the local queue: no other reader gets an item that waits in it


class WorkQueue:
    """Work items that a script reads one by one, in epochs. API of DeepRec.

    Under the strategy 'collective', ranks share each epoch's items: rank r of N takes every N-th
    item, starting with item r. (In DeepRec faster workers take more items; here all ranks run the
    same steps.)
    """

    def __init__(
        self,
        works: Iterable[str | bytes] | str | bytes,
        num_epochs: int | None = 1,
        shuffle: bool = True,
        seed: int | None = None,
        prefix: str | None = None,
        num_slices: int | None = None,
        name: str = "work_queue",
    ) -> None:
        """Makes no op yet.

        Args:
          works: a list or tuple of strings, or one string.
          num_epochs: number of passes over the items, an int >= 1; None: endless.
          shuffle: whether to shuffle each epoch.
          seed: seed of the shuffles, an int; None: a random seed, the same on all ranks.
          prefix: put before each item; None: nothing.
          num_slices: ignored, as in DeepRec for files.
          name: name of the ops.

        Raises:
          ValueError: works is empty, or num_epochs is out of range.
          TypeError: works are not strings.
        """
        del num_slices
        works = [works] if isinstance(works, (str, bytes)) else list(works)
        if not works:
            raise ValueError("WorkQueue: works must have at least one item, got none")
        if not all(isinstance(work, (str, bytes)) for work in works):
            raise TypeError(f"WorkQueue: works must be strings, got {works!r}")
        if num_epochs is not None:
            num_epochs = checked_count("WorkQueue: num_epochs", num_epochs, least=1)
        self._works = [_bytes(prefix or "") + _bytes(work) for work in works]
        self._num_epochs = tf.int64.max if num_epochs is None else num_epochs
        self._shuffle = shuffle
        self._seed = seed
        self._name = name
        self._iterator: Any = None
        self._num_taken: tf.Variable | None = None  # a local variable, made by add_summary()

    def input_dataset(self) -> tf.data.Dataset:
        """A tf.data.Dataset of this rank's items; each of its iterators starts at the first."""
        seed = self._seed_of_orders()

        def items_of(epoch):
            works = tf.constant(self._works)
            if self._shuffle:
                works = tf.random.experimental.stateless_shuffle(works, [seed, epoch])
            return tf.data.Dataset.from_tensor_slices(works)

        items = tf.data.Dataset.range(self._num_epochs).flat_map(items_of)
        if not is_collective():
            return items
        ranks = current_ranks()
        self._check_all_have_work(ranks.size)
        return items.shard(ranks.size, ranks.rank)

    def take(self) -> tf.Tensor:
        """A string tensor: each run gives this rank's next item.

        In one session, all tensors taken from one WorkQueue share its items: no item comes twice
        in an epoch. After the last item, running raises tf.errors.OutOfRangeError.
        """
        with tf.name_scope(self._name):
            if self._iterator is None:
                self._iterator = tf.data.make_one_shot_iterator(self.input_dataset())
            item = self._iterator.get_next()
            if self._num_taken is None:
                return item
            with tf.control_dependencies([item]):
                counted = self._num_taken.assign_add(1)
            with tf.control_dependencies([counted]):
                return tf.identity(item)

    def input_producer(self) -> tf.FIFOQueue:
        """A tf.FIFOQueue of this rank's items, for `read` of a tf.TextLineReader and the like.

        A queue runner fills it. Sessions of tf.train start the runner; for other sessions, call
        tf.train.start_queue_runners.
        """
        item = self.take()
        with tf.name_scope(self._name), silence_deprecation():
            queue = tf.FIFOQueue(_CAPACITY, [tf.string], [[]])
            runner = tf.train.QueueRunner(queue, [queue.enqueue(item)])
            tf.train.add_queue_runner(runner)
        return queue

    def add_summary(self) -> None:
        """Adds a scalar summary <name>/taken: the number of items this rank has taken.

        A local variable counts items from take() and input_producer() called after this.
        """
        if self._num_taken is None:
            self._num_taken = tf.Variable(
                tf.constant(0, tf.int64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name=f"{self._name}/num_taken",  # made unique: queues may share a name
            )
            tf.summary.scalar(f"{self._name}/taken", self._num_taken)

    def _seed_of_orders(self) -> int:
        if self._seed is None:
            self._seed = random_seed() % 2**31
        return self._seed

    def _check_all_have_work(self, num_ranks: int) -> None:
        if len(self._works) % num_ranks:
            _logger.warning(
                "%s: %d items in an epoch do not divide evenly among %d ranks; all ranks must run "
                "the same number of steps",
                self._name,
                len(self._works),
                num_ranks,
            )


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
