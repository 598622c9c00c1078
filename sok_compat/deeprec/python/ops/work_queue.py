# SPDX-License-Identifier: Apache-2.0
"""`WorkQueue`: items of work, file names mostly, dealt out to ranks and read one by one."""

import logging

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.ranks.identity import current_ranks, random_seed
from sok_compat.runtime.tf_versions import silence_deprecation

_logger = logging.getLogger("sok_compat")
_CAPACITY = 1  # of the local queue: what waits in it, nobody else takes


class WorkQueue:
    """Items that a script reads one by one, in one order for each epoch. API of DeepRec.

    With several ranks under the strategy 'collective' no item of an epoch goes to two of them: rank
    r of N takes every N-th, from the r-th on. (In DeepRec whoever is faster takes more, which ranks
    that wait for one another in each step cannot.)
    """

    def __init__(
        self,
        works,
        num_epochs=1,
        shuffle=True,
        seed=None,
        prefix=None,
        num_slices=None,
        name="work_queue",
    ):
        """Makes no op yet.

        Args:
          works: a list or tuple of strings, or one of them.
          num_epochs: how often all are gone through, an int >= 1; None: without end.
          shuffle: whether each epoch has an order of its own.
          seed: of these orders, an int; None: a random one, the same for all ranks.
          prefix: what items begin with; None: nothing.
          num_slices: ignored, as in DeepRec for files.
          name: of the ops.

        Raises:
          ValueError: no works, or num_epochs is out of range.
          TypeError: works are no strings.
        """
        del num_slices
        works = [works] if isinstance(works, (str, bytes)) else list(works)
        if not works:
            raise ValueError("WorkQueue: works must have an item at least, got none")
        if not all(isinstance(work, (str, bytes)) for work in works):
            raise TypeError(f"WorkQueue: works must be strings, got {works!r}")
        if num_epochs is not None and (not isinstance(num_epochs, int) or num_epochs < 1):
            raise ValueError(f"WorkQueue: num_epochs must be None or an int >= 1, got {num_epochs}")
        self._works = [_bytes(prefix or "") + _bytes(work) for work in works]
        self._num_epochs = tf.int64.max if num_epochs is None else num_epochs
        self._shuffle = shuffle
        self._seed = seed
        self._name = name
        self._iterator = None
        self._num_taken = None  # a local variable, once there is a summary of it

    def input_dataset(self):
        """A tf.data.Dataset of this rank's items; each of its iterators begins with the first."""
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

    def take(self):
        """A string tensor: when run, the next item of this rank.

        All that is taken of one WorkQueue, in one session, are different items. At the end a
        tf.errors.OutOfRangeError is raised.
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

    def input_producer(self):
        """A tf.FIFOQueue of this rank's items, for `read` of a tf.TextLineReader and the like.

        A queue runner fills it, which sessions of tf.train start, and others by
        tf.train.start_queue_runners.
        """
        item = self.take()
        with tf.name_scope(self._name), silence_deprecation():
            queue = tf.FIFOQueue(_CAPACITY, [tf.string], [[]])
            runner = tf.train.QueueRunner(queue, [queue.enqueue(item)])
            tf.train.add_queue_runner(runner)
        return queue

    def add_summary(self):
        """Adds a scalar summary <name>/taken: how many items this rank has taken.

        It counts what comes of take() and input_producer() after this call, in a local variable.
        """
        if self._num_taken is None:
            self._num_taken = tf.Variable(
                tf.constant(0, tf.int64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name=f"{self._name}/num_taken",  # made unique, as a queue's name need not be
            )
            tf.summary.scalar(f"{self._name}/taken", self._num_taken)

    def _seed_of_orders(self):
        if self._seed is None:
            self._seed = random_seed() % 2**31
        return self._seed

    def _check_all_have_work(self, num_ranks):
        if len(self._works) % num_ranks:
            _logger.warning(
                "%s: of %d items in an epoch, %d ranks do not get as many each; all ranks must "
                "run as many steps",
                self._name,
                len(self._works),
                num_ranks,
            )


def _bytes(text):
    return text.encode() if isinstance(text, str) else text
