# SPDX-License-Identifier: Apache-2.0
"""`IncrementalSaver`: a tf.train.Saver that can also save just the changes since its last save."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.saver.series import Saved, is_increment
from sok_compat.checkpoint.saver.tf_saver import SaverBuilder
from sok_compat.checkpoint.sessions.savers_of_ranks import saves_with_other_ranks
from sok_compat.checkpoint.streams.streamed_save import StreamedTable
from sok_compat.ranks.allgather_strings import allgather_strings
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import SessionInterface

tf1 = tf.compat.v1
_logger = logging.getLogger(__name__)


class IncrementalSaver(tf.compat.v1.train.Saver):
    """A tf.compat.v1.train.Saver with `save_increment`, to call between `save`s.

    Added by sok_compat. An increment has all ordinary variables and, for each table, the removed
    keys and the keys whose rows or slots have changed in any way since the last `save` or
    `save_increment`. It is a checkpoint in the same folder as its predecessors, and needs them:
    `restore`, of any saver, reads the whole checkpoint and then each increment.

    Names, and saving on several ranks, are as for tf.train.Saver. If two IncrementalSavers save the
    same table, `save_increment` saves a whole checkpoint whenever the other one has saved since.

    `max_to_keep` and `keep_checkpoint_every_n_hours` count whole checkpoints. A whole checkpoint is
    deleted together with its increments.
    """

    def __init__(self, var_list: Any = None, **options: Any) -> None:
        """Adds ops to the graph.

        Args:
          var_list: as for tf.compat.v1.train.Saver.
          **options: the other arguments of tf.compat.v1.train.Saver, except `builder` and
            `saver_def`.

        Raises:
          NotImplementedError: in eager mode.
          ValueError: `builder` or `saver_def` is given.
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
        self._chain: list[Saved] = []  # the last whole checkpoint and its increments
        self._increments: set[str] = set()  # paths
        self.saves_increment = False  # whether one is being saved
        super().__init__(var_list, builder=self._of_increments, **options)

    def save(
        self,
        sess: tf.compat.v1.Session,
        save_path: str,
        global_step: int | tf.Tensor | tf.Variable | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> str:
        """Saves a whole checkpoint, as tf.compat.v1.train.Saver.save; increments may follow."""
        saving = self._saving(sess, {})
        path = super().save(saving, save_path, _number_of(sess, global_step), *args, **kwargs)
        self._chain = [Saved(path, saving.id)]
        return path

    def save_increment(
        self,
        sess: tf.compat.v1.Session,
        save_path: str,
        global_step: int | tf.Tensor | tf.Variable | None = None,
        latest_filename: str | None = None,
        write_state: bool = True,
    ) -> str:
        """Saves the changes since the last save, on all ranks.

        Saves a whole checkpoint instead, and logs why (INFO), if there is none yet, or if a table
        was restored, initialized or given other slots since the last save.

        Args:
          sess: the session.
          save_path: as for `save`, in the same folder as the last checkpoint.
          global_step: as for `save`.
          latest_filename: as for `save`.
          write_state: as for `save`.

        Returns:
          The path of the checkpoint.

        Raises:
          ValueError: the folder is another, the increment needs the file at this path, or the saver
            has no table.
          tf.errors.OpError: as `save` raises. The next increment then includes the unsaved changes.
        """
        if not self.has_tables:
            raise ValueError("this saver has no table, so there are no increments: use save()")
        global_step = _number_of(sess, global_step)
        given = sess, save_path, global_step, latest_filename, write_state
        problem = self._problem(sess)
        if problem:
            return self._save_whole(problem, *given)
        self._check_path(self.path_of(save_path, global_step))
        saving = self._saving(sess, {self._of_increments.base: self._chain[-1].as_base})
        self.saves_increment = True
        try:
            path = super().save(
                saving,
                save_path,
                global_step,
                latest_filename,
                write_meta_graph=False,
                write_state=write_state,
            )
        except (tf.errors.FailedPreconditionError, tf.errors.UnknownError):
            problem = self._problem(sess)  # another thread of some rank may have restored a table
            if not problem:
                raise
        finally:
            self.saves_increment = False
        if problem:
            return self._save_whole(problem, *given)
        self._chain.append(Saved(path, saving.id))
        return path

    def _saving(self, session, feeds):
        return _Saving(session, self.saver_def, self._of_increments.saved_id, feeds)

    def _save_whole(self, problem, *args):
        _logger.info("saving a whole checkpoint instead of an increment: %s", problem)
        *given, write_state = args
        return self.save(*given, write_state=write_state)

    def path_of(self, save_path: str, global_step: int | None) -> str:
        """The path of the checkpoint that `save` or `save_increment` writes for these arguments."""
        if global_step is None:
            return save_path
        return (
            f"{save_path}-{global_step:08d}"
            if self._pad_step_number
            else (f"{save_path}-{global_step}")
        )

    @property
    def has_tables(self) -> bool:
        """Whether the saver saves a table, so that there are increments."""
        return len(self._of_increments.bases) > 0

    @property
    def chain(self) -> list[str]:
        """The paths of the last saved whole checkpoint and of its increments."""
        return [each.path for each in self._chain]

    @property
    def last_saved(self) -> str | None:
        """The path of the last saved checkpoint; None if none was saved yet."""
        return self._chain[-1].path if self._chain else None

    def recover_last_checkpoints(self, checkpoint_paths: list[str]) -> None:
        """As tf.compat.v1.train.Saver; also finds out which of them are increments."""
        super().recover_last_checkpoints(checkpoint_paths)
        for path in self.last_checkpoints:
            if is_increment(path):
                self._increments.add(path)

    def _problem(self, session):
        """Why no increment can be saved now, on some rank; '' if it can."""
        problem = ""
        if not self._chain:
            problem = "there is no whole checkpoint yet"
        elif not self._is_as_saved(session):
            problem = f"since {self._chain[-1].path} was saved, some table has been replaced"
        if saves_with_other_ranks(self, session.graph):
            problems = allgather_strings("base_of_increment", problem, session.graph)
            problem = next((each for each in problems if each), "")
        return problem

    def _is_as_saved(self, session):
        """Whether no table has been replaced since the last save."""
        ids = set(session.run(self._of_increments.bases))
        return ids == {self._chain[-1].id.encode()}

    def _check_path(self, path):
        last = self._chain[-1].path
        folder = os.path.dirname(last)
        if os.path.dirname(path) != folder:
            raise ValueError(
                f"an increment of {last} is saved in the folder of that one, {folder!r}, got {path}"
            )
        if path in self.chain:
            raise ValueError(
                f"{path} is needed to restore the increment: give the increment another path, or a "
                "global_step"
            )

    def _RecordLastCheckpoint(self, latest_save_path):  # noqa: N802  TensorFlow's name
        """As tf.compat.v1.train.Saver, but counts whole checkpoints, with their increments."""
        if not self.saver_def.max_to_keep:
            return
        if self.saves_increment:
            self._increments.add(latest_save_path)
        else:
            self._increments.discard(latest_save_path)
        kept = [each for each in self._last_checkpoints if each[0] != latest_save_path]
        kept.append((latest_save_path, time.time()))
        whole = [i for i, (path, _) in enumerate(kept) if path not in self._increments]
        num_old = len(whole) - self.saver_def.max_to_keep
        first = whole[num_old] if num_old > 0 else 0
        self._last_checkpoints = kept[first:]
        # A checkpoint is deleted after its increments. keep_checkpoint_every_n_hours never keeps an
        # increment, whose time is 0.
        self._checkpoints_to_be_deleted += [
            (path, 0.0 if path in self._increments else seconds)
            for path, seconds in reversed(kept[:first])
        ]

    def _MaybeDeleteOldCheckpoints(self, meta_graph_suffix="meta"):  # noqa: N802
        """As tf.compat.v1.train.Saver, but deletes all that are due."""
        while self._checkpoints_to_be_deleted:
            self._increments.discard(self._checkpoints_to_be_deleted[0][0])
            super()._MaybeDeleteOldCheckpoints(meta_graph_suffix)


class _Builder(SaverBuilder):
    """Builds an IncrementalSaver's ops.

    base: a scalar string tensor, fed with the checkpoint that an increment is based on.
    bases: scalar string tensors, the ids of the checkpoints that each table was last saved in.
    filename_tensor: set by DeepRec's savers, as scripts take it from there.
    """

    filename_tensor: tf.Tensor | None = None
    base: tf.Tensor | None = None
    bases: Sequence[tf.Tensor] = ()

    def base_of(self, tables: list[StreamedTable]) -> tf.Tensor:
        """See the base class; also creates `base` and `bases`."""
        with tf.device("/cpu:0"):
            self.base = tf1.placeholder_with_default("", [], "base_of_increment")
        bases = []
        for each in tables:
            with tf.device(each.table.device):
                bases.append(ops.sok_saved_base(each.table.table_handle))
        self.bases = bases
        return self.base


class _Saving(SessionInterface):
    """A session in which one checkpoint is saved.

    id: the checkpoint's; '' before, and without tables.
    """

    def __init__(self, session, saver_def, id_tensor, feeds):
        """`feeds`: in addition to the caller's."""
        if not isinstance(session, SessionInterface):
            raise TypeError(f"IncrementalSaver needs a session, got {type(session).__name__}")
        self._session, self._id_tensor, self._feeds = session, id_tensor, feeds
        self._save_tensor = saver_def.save_tensor_name
        self.id = ""

    @property
    def graph(self) -> tf.Graph:
        """The session's."""
        return self._session.graph

    @property
    def sess_str(self) -> str:
        """The session's."""
        return self._session.sess_str

    def run(
        self,
        fetches: Any,
        feed_dict: dict[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """As the session's; also learns the id from the run that saves: another would save again,
        under the default name."""
        feeds = {**(feed_dict or {}), **self._feeds}
        if fetches != self._save_tensor or self._id_tensor is None:
            return self._session.run(fetches, feeds, options, run_metadata)
        fetched, saved = self._session.run([fetches, self._id_tensor], feeds, options, run_metadata)
        self.id = saved.decode()
        return fetched


def _number_of(session, global_step):
    if global_step is None or isinstance(global_step, tf.compat.integral_types):
        return global_step
    return int(tf1.train.global_step(session, global_step))
