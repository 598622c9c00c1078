# SPDX-License-Identifier: Apache-2.0
"""`tf.train.MonitoredTrainingSession` under the strategy 'collective': all ranks start alike, and
only rank 0 writes files."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.saver.increment_hook import IncrementalSaverHook
from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver
from sok_compat.checkpoint.sessions.restored_sessions import NoEvents
from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.deeprec.collective.micro_batches import with_micro_batches
from sok_compat.deeprec.collective.run_folders import share_folder
from sok_compat.ranks.current_job import active_job
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.known_words import raise_for_unknown_words
from sok_compat.runtime.tf_versions import members

_SIGNATURE = inspect.signature(tf.train.MonitoredTrainingSession)
_OF_RANK_0 = ("checkpoint_dir", "summary_dir", "chief_only_hooks")


def monitored_training_session(
    *args: Any, save_incremental_checkpoint_secs: float | None = None, **kwargs: Any
) -> tf.train.MonitoredSession:
    """As tf.compat.v1.train.MonitoredTrainingSession, with its arguments. API of TensorFlow 1.

    Under the strategy 'collective', ordinary variables start with the values of rank 0. Only its
    folders and `chief_only_hooks` are used: other ranks ignore theirs, and `is_chief` is ignored.
    The session ends on all ranks when rank 0 has saved.
    All ranks restore and save embedding variables, as one checkpoint. All ranks run summary ops in
    the same steps, because these may need other ranks; so `save_summaries_secs` raises.

    Args:
      *args, **kwargs: see tf.compat.v1.train.MonitoredTrainingSession.
      save_incremental_checkpoint_secs: of DeepRec: seconds between increments, which
        sok_compat.checkpoint.IncrementalSaver saves between full checkpoints; None or 0: no
        increments.

    Raises:
      ValueError: save_summaries_secs on several ranks; save_incremental_checkpoint_secs without a
        checkpoint_dir, or with a scaffold whose saver is not an IncrementalSaver.
    """
    known = (*_SIGNATURE.parameters, "save_incremental_checkpoint_secs")
    raise_for_unknown_words("tf.train.MonitoredTrainingSession", kwargs, known)
    options: dict[str, Any] = _SIGNATURE.bind(*args, **kwargs).arguments
    if save_incremental_checkpoint_secs:
        _save_increments(options, save_incremental_checkpoint_secs)
    options["hooks"] = with_micro_batches(options.get("hooks"), options.get("config"))
    if not is_collective():
        return tf.train.MonitoredTrainingSession(**options)
    options["is_chief"] = True  # a worker would wait for a chief in this process
    has_summaries = options.get("summary_dir") or options.get("checkpoint_dir")
    if current_ranks().size > 1 and has_summaries and options.get("save_summaries_secs"):
        raise ValueError(
            "all ranks must run summaries in the same steps, got save_summaries_secs="
            f"{options['save_summaries_secs']}: use save_summaries_steps"
        )
    last_hooks = share_folder(options.get("checkpoint_dir"))
    options["hooks"] = [*with_broadcast(options.get("hooks")), *last_hooks]
    if current_ranks().rank != 0:
        options = {name: value for name, value in options.items() if name not in _OF_RANK_0}
        if has_summaries:
            _add_summaries(options)
    options["config"] = session_config(options.get("config"))
    return tf.train.MonitoredTrainingSession(**options)


def _save_increments(options: dict[str, Any], seconds: float) -> None:
    """Adds a saver and a hook to the arguments of a session."""
    folder = options.get("checkpoint_dir")
    is_first = not is_collective() or current_ranks().rank == 0  # only its folder is used
    if is_first and not folder:
        raise ValueError(
            f"save_incremental_checkpoint_secs={seconds} needs a checkpoint_dir, got {folder!r}"
        )
    scaffold = options.setdefault("scaffold", tf.train.Scaffold()) or tf.train.Scaffold()
    if scaffold.saver is None:
        # With the options that the scaffold itself would use.
        members.give_saver(scaffold, IncrementalSaver(sharded=True, allow_empty=True))
    if not isinstance(scaffold.saver, IncrementalSaver):
        raise ValueError(
            "save_incremental_checkpoint_secs needs a scaffold without a saver, or with a "
            f"sok_compat.checkpoint.IncrementalSaver, got {type(scaffold.saver).__name__}"
        )
    options["scaffold"] = scaffold
    hook = IncrementalSaverHook(scaffold.saver, folder or "", save_secs=seconds)
    options["hooks"] = [*(options.get("hooks") or []), hook]


def with_broadcast(
    hooks: Iterable[tf.train.SessionRunHook] | None,
) -> list[tf.train.SessionRunHook]:
    """The hooks of a script, after one that broadcasts the ordinary variables of rank 0."""
    if not is_collective():
        return list(hooks or [])
    return [active_job().BroadcastGlobalVariablesHook(0), *(hooks or [])]


def _add_summaries(options: dict[str, Any]) -> None:
    """Makes a session without a folder run summary ops as often as rank 0's, and write none.

    As on rank 0, this hook comes before the script's, and so does one that saves.
    """
    default = None if "save_summaries_secs" in options else 100  # TensorFlow's
    steps = options.get("save_summaries_steps", default)
    if not steps:
        return
    options["scaffold"] = scaffold = options.get("scaffold") or tf.train.Scaffold()
    hook = tf.train.SummarySaverHook(steps, summary_writer=NoEvents(), scaffold=scaffold)
    options["hooks"] = [hook, *options["hooks"]]


def session_config(config: tf.ConfigProto | None = None) -> tf.ConfigProto:
    """A copy of a tf.ConfigProto for a process that uses one device of its machine.

    GPU memory is allocated on demand. If the process sees several GPUs, it uses the GPU of its
    local rank, unless the script names one.
    """
    config = tf.ConfigProto(allow_soft_placement=True) if config is None else copy.deepcopy(config)
    config.gpu_options.allow_growth = True
    config.gpu_options.force_gpu_compatible = True
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    local_rank = active_job().local_rank()
    if not config.gpu_options.visible_device_list and local_rank < num_gpus > 1:
        config.gpu_options.visible_device_list = str(local_rank)
    return config
