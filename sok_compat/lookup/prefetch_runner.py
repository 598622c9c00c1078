# SPDX-License-Identifier: Apache-2.0
"""The thread that prefetches batches; sessions start it with their queue runners."""

import itertools
import threading

import tensorflow as tf

from sok_compat.ranks.exchange import first_line
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1
_MOST_CHARACTERS = 4000  # of what an error says


class PrefetchRunner(tf1.train.QueueRunner):
    """Makes a batch as soon as there is room for it, from the first step on.

    What fails there fails the step that takes the batch, so it is no error of the thread's.

    Attributes:
      puts: the ops that put something into the batch; more may come.
      start: int64 scalar tensor, how often the thread has been started in this graph.
    """

    # As a QueueRunner in a meta graph, it has nothing to run: steps of a graph that was imported
    # say that nothing makes their batches.

    def __init__(self, where):
        """
        Args:
          where: the attributes of ops that say which batches.
        """
        self.puts = []
        self.start = tf1.placeholder(tf.int64, [], name="prefetch_start")
        self._num_puts = tf1.placeholder(tf.int64, [], name="prefetch_num_puts")
        self._code = tf1.placeholder(tf.int32, [], name="prefetch_code")
        self._message = tf1.placeholder(tf.string, [], name="prefetch_message")
        self._begin_op = ops.sok_prefetch_begin(**where)
        self._all_op = ops.sok_prefetch_all(self._num_puts, **where)
        self._fail_op = ops.sok_prefetch_fail(self._code, self._message, **where)
        self._start_op = ops.sok_prefetch_start(**where)
        self._close_op = self._cancel_op = ops.sok_prefetch_close(**where)
        self._queue = self._num_puts  # of which a meta graph has the name
        self._enqueue_ops, self._queue_closed_exception_types = [], ()
        self._starts = itertools.count()

    @property
    def exceptions_raised(self):
        """None: they are those of the steps."""
        return []

    def create_threads(self, sess, coord=None, daemon=False, start=False):
        """As a QueueRunner's: what makes batches, and what ends that when `coord` asks to stop."""
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

    def _make(self, session, start, coord):
        feeds = {self.start: start, self._num_puts: len(self.puts)}
        try:
            while coord is None or not coord.should_stop():
                session.run(self._begin_op)  # tf.errors.CancelledError: closed
                if not self._fill(session, feeds):
                    break
            session.run(self._close_op)
        except (tf.errors.OpError, RuntimeError):  # the session has ended
            return

    def _fill(self, session, feeds):
        """Makes the batch that has begun; whether there may be more."""
        try:
            session.run([*self.puts, self._all_op], feeds)
        except tf.errors.OpError as error:
            message = first_line(error, _MOST_CHARACTERS)
            failure = {self._code: error.error_code, self._message: message}
            session.run(self._fail_op, failure)
            return not isinstance(error, tf.errors.OutOfRangeError)
        return True

    def _close_on_stop(self, session, coord):
        coord.wait_for_stop()
        try:
            session.run(self._close_op)
        except (tf.errors.OpError, RuntimeError):  # it has ended
            return
