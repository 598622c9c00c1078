# SPDX-License-Identifier: Apache-2.0
"""`IncrementalSaver`: a tf.train.Saver that also saves what has changed since it saved last."""

import logging
import os
import time

import tensorflow as tf

from sok_compat.checkpoint.savers_of_ranks import saves_with_other_ranks
from sok_compat.checkpoint.series import Saved, entry_of
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.shared_texts import share_text
from sok_compat.runtime.tf_versions import BulkSaverBuilder, SessionInterface

tf1 = tf.compat.v1
_logger = logging.getLogger(__name__)


class IncrementalSaver(tf1.train.Saver):
    """As tf.compat.v1.train.Saver, and `save_increment` between its `save`s.

    An increment holds of each table the keys whose rows or slots have changed since the last `save`
    or `save_increment`, whatever has changed them, and the keys that are gone; and all ordinary
    variables. It is a checkpoint of its own, in the folder of those before it, which it needs to be
    restored: `restore`, of any saver, takes the whole one and each increment in turn.

    The names and the ranks are those of tf.train.Saver. Of a table that two of these save, the
    increments of each have what has changed since either saved; so none can be saved after the
    other one: `save_increment` then saves a whole checkpoint.

    `max_to_keep` and `keep_checkpoint_every_n_hours` count whole checkpoints. With one go its
    increments, and none goes that an increment needs.
    """

    def __init__(self, var_list=None, **options):
        """Adds ops to the graph.

        Args:
          var_list: as of tf.compat.v1.train.Saver.
          **options: likewise, but `builder` and `saver_def`.

        Raises:
          NotImplementedError: eager mode.
          ValueError: `builder` or `saver_def`.
        """
        if tf.executing_eagerly():
            raise NotImplementedError(
                "IncrementalSaver is for graphs, as tf.compat.v1.train.Saver is; in eager mode "
                "save whole checkpoints by tf.train.Checkpoint"
            )
        refused = sorted({"builder", "saver_def"} & options.keys())
        if refused:
            raise ValueError(f"IncrementalSaver has its own {' and '.join(refused)}: leave it out")
        self._of_increments = _Builder()
        self._chain = []  # the Saved that the tables were saved in last, and what it needs
        self._increments, self._saves_increment = set(), False  # paths; whether one is being saved
        super().__init__(var_list, builder=self._of_increments, **options)

    def save(self, sess, save_path, *args, **kwargs):
        """As of tf.compat.v1.train.Saver: a whole checkpoint, which increments may follow."""
        path = super().save(sess, save_path, *args, **kwargs)
        self._chain = []
        self._note(sess, path)
        return path

    def save_increment(self, sess, save_path, global_step=None, latest_filename=None):
        """Saves what has changed since the last save, on all ranks.

        A whole checkpoint instead, saying why in the log (INFO): on the first time, and where some
        table was restored, initialized or has got other slots since.

        Args:
          sess: the session.
          save_path: as of `save`, in the folder of the last one.
          global_step: as of `save`.
          latest_filename: as of `save`.

        Returns:
          The path of the checkpoint.

        Raises:
          ValueError: another folder than the last one's; a path that the increment needs; there is
            no table.
          tf.errors.OpError: as of `save`. What was not saved then, the next increment has.
        """
        if not self._of_increments.bases:
            raise ValueError("this saver has no table, so that there are no increments: use save()")
        if global_step is not None and not isinstance(global_step, int):
            global_step = int(tf1.train.global_step(sess, global_step))
        problem = self._problem(sess)
        if problem:
            _logger.info("saving a whole checkpoint, no increment: %s", problem)
            return self.save(sess, save_path, global_step, latest_filename)
        self._check_path(self.path_of(save_path, global_step))
        feeds = {self._of_increments.base: self._chain[-1].as_base}
        self._saves_increment = True
        try:
            path = super().save(
                _WithFeeds(sess, feeds),
                save_path,
                global_step,
                latest_filename,
                write_meta_graph=False,
            )
        finally:
            self._saves_increment = False
        self._note(sess, path)
        return path

    def path_of(self, save_path, global_step):
        """Of the checkpoint that `save` or `save_increment` makes by these; global_step: an int or
        None."""
        if global_step is None:
            return save_path
        return (
            f"{save_path}-{global_step:08d}"
            if self._pad_step_number
            else (f"{save_path}-{global_step}")
        )

    @property
    def last_saved(self):
        """The path of the checkpoint that tables were saved in last; None: none was."""
        return self._chain[-1].path if self._chain else None

    def recover_last_checkpoints(self, checkpoint_paths):
        """As of tf.compat.v1.train.Saver; looks which are increments."""
        super().recover_last_checkpoints(checkpoint_paths)
        for path in self.last_checkpoints:
            entry = entry_of(path)
            if entry is not None and entry.base_name is not None:
                self._increments.add(path)

    def _note(self, session, path):
        """All tables are in one checkpoint, unless something has replaced one since."""
        ids = set(session.run(self._of_increments.bases)) if self._of_increments.bases else ()
        self._chain.append(Saved(path, ids.pop().decode() if len(ids) == 1 else ""))

    def _problem(self, session):
        """Why no increment can be saved now, on any rank; '': it can."""
        problem = ""
        if not self._chain:
            problem = "there is no whole one yet"
        elif set(session.run(self._of_increments.bases)) != {self._chain[-1].id.encode()}:
            problem = f"since {self._chain[-1].path} was saved, some table has been replaced"
        if saves_with_other_ranks(self, session.graph):
            problems = share_text("base_of_increment", problem, session.graph)
            problem = next((each for each in problems if each), "")
        return problem

    def _check_path(self, path):
        last = self._chain[-1].path
        folder = os.path.dirname(last)
        if os.path.dirname(path) != folder:
            raise ValueError(
                f"an increment of {last} is saved in the folder of that one, {folder!r}, got {path}"
            )
        if path in [each.path for each in self._chain]:
            raise ValueError(
                f"{path} is what the increment would need to be restored: give it another path, or "
                "a global_step"
            )

    def _RecordLastCheckpoint(self, latest_save_path):  # noqa: N802  TensorFlow's name
        """As of tf.compat.v1.train.Saver, of whole checkpoints with their increments."""
        if not self.saver_def.max_to_keep:
            return
        if self._saves_increment:
            self._increments.add(latest_save_path)
        else:
            self._increments.discard(latest_save_path)
        kept = [each for each in self._last_checkpoints if each[0] != latest_save_path]
        kept.append((latest_save_path, time.time()))
        whole = [i for i, (path, _) in enumerate(kept) if path not in self._increments]
        num_old = len(whole) - self.saver_def.max_to_keep
        first = whole[num_old] if num_old > 0 else 0
        self._last_checkpoints = kept[first:]
        # None goes before what needs it has gone; an increment that is not kept has no hour.
        self._checkpoints_to_be_deleted += [
            (path, 0.0 if path in self._increments else seconds)
            for path, seconds in reversed(kept[:first])
        ]

    def _MaybeDeleteOldCheckpoints(self, meta_graph_suffix="meta"):  # noqa: N802
        """As of tf.compat.v1.train.Saver, of all that are due."""
        while self._checkpoints_to_be_deleted:
            self._increments.discard(self._checkpoints_to_be_deleted[0][0])
            super()._MaybeDeleteOldCheckpoints(meta_graph_suffix)


class _Builder(BulkSaverBuilder):
    """Makes what an IncrementalSaver asks of the ops that save.

    base: a scalar string tensor that is fed with what an increment is based on.
    bases: scalar string tensors, the id of the checkpoint that each table was saved in last.
    """

    base, bases = None, ()

    def base_of(self, tables):
        """See `save_checkpoint`; called when these are built."""
        with tf.device("/cpu:0"):
            self.base = tf1.placeholder_with_default("", [], "base_of_increment")
        self.bases = []
        for each in tables:
            with tf.device(each.table.device):
                self.bases.append(ops.sok_saved_base(each.table.table_handle))
        return self.base


class _WithFeeds(SessionInterface):
    """A session that feeds some tensors more than its caller does."""

    def __init__(self, session, feeds):
        self._session, self._feeds = session, feeds

    @property
    def graph(self):
        """The session's."""
        return self._session.graph

    @property
    def sess_str(self):
        """The session's."""
        return self._session.sess_str

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """As of the session."""
        feeds = {**(feed_dict or {}), **self._feeds}
        return self._session.run(fetches, feeds, options, run_metadata)
