# SPDX-License-Identifier: Apache-2.0
"""The thread that prefetches batches; sessions start it with their queue runners."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import tensorflow as tf

from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1
_MOST_CHARACTERS = 4000  # of an error's message


class PrefetchRunner(tf.compat.v1.train.QueueRunner):
    """Makes a batch whenever there is room for one, from the first step on.

    An error in a batch fails the step that takes the batch, not the thread.

    Attributes:
      puts: the ops that fill the slots of a batch; more may come.
      start: int64 scalar tensor, how often the thread has been started in this graph.
    """

    # Imported from a meta graph, this QueueRunner runs nothing, and steps report that no thread
    # makes their batches.

    def __init__(self, where: dict[str, Any]) -> None:
        """Makes the ops; `where` are the attributes that identify the batches in them."""
        self.puts: list[tf.Operation] = []
        self.start = tf1.placeholder(tf.int64, [], name="prefetch_start")
        self._num_puts = tf1.placeholder(tf.int64, [], name="prefetch_num_puts")
        self._code = tf1.placeholder(tf.int32, [], name="prefetch_code")
        self._message = tf1.placeholder(tf.string, [], name="prefetch_message")
        self._begin_op = ops.sok_prefetch_begin(**where)
        self._all_op = ops.sok_prefetch_all(self._num_puts, **where)
        self._fail_op = ops.sok_prefetch_fail(self._code, self._message, **where)
        self._start_op = ops.sok_prefetch_start(**where)
        self._close_op = self._cancel_op = ops.sok_prefetch_close(**where)
        self._queue = self._num_puts  # only its name is in meta graphs
        self._enqueue_ops: list = []
        self._queue_closed_exception_types = ()
        self._starts = itertools.count()

    @property
    def exceptions_raised(self) -> list:
        """Always empty: steps raise the errors."""
        return []

    def create_threads(
        self,
        sess: tf.compat.v1.Session,
        coord: tf.train.Coordinator | None = None,
        daemon: bool = False,
        start: bool = False,
    ) -> list[threading.Thread]:
        """As a QueueRunner's: a thread that makes batches, and with `coord` one that stops it."""
        sess.run(self._start_op)
        threads = [threading.Thread(target=self._make, args=(sess, next(self._starts), coord))]
        if coord is not None:
            threads.append(threading.Thread(target=self._close_on_stop, args=(sess, coord)))
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            thread.daemon = daemon
            if start:
                thread.start()
        return threads

    def _make(
        self, session: tf.compat.v1.Session, start: int, coord: tf.train.Coordinator | None
    ) -> None:
        feeds = {self.start: start, self._num_puts: len(self.puts)}
        try:
            while coord is None or not coord.should_stop():
                session.run(self._begin_op)  # tf.errors.CancelledError: closed
                if not self._fill(session, feeds):
                    break
            session.run(self._close_op)
        except (tf.errors.OpError, RuntimeError):  # the session has ended
            return

    def _fill(self, session: tf.compat.v1.Session, feeds: dict) -> bool:
        """Makes a batch that has begun; returns whether more may follow."""
        try:
            session.run([*self.puts, self._all_op], feeds)
        except tf.errors.OpError as error:
            message = first_line(error, _MOST_CHARACTERS)
            failure = {self._code: error.error_code, self._message: message}
            session.run(self._fail_op, failure)
            return not isinstance(error, tf.errors.OutOfRangeError)
        return True

    def _close_on_stop(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        coord.wait_for_stop()
        try:
            session.run(self._close_op)
        except (tf.errors.OpError, RuntimeError):  # the session has ended
            return
