# SPDX-License-Identifier: Apache-2.0
"""Estimators on several ranks: that of `CollectiveStrategy`, with its folder on rank 0, and those
of `tf.estimator`, which rank 0 exports."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.files.table_names import find_tables
from sok_compat.checkpoint.sessions.folders_of_rank_0 import trained_folder
from sok_compat.checkpoint.streams.stored_tensors import chain_of, tensors_in
from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.deeprec.collective.micro_batches import with_micro_batches
from sok_compat.deeprec.collective.sessions_of_ranks import session_config, with_broadcast
from sok_compat.deeprec.namespace.names import HOMES
from sok_compat.ranks.allgather_strings import value_of_rank_0
from sok_compat.ranks.collectives import graphs_of_one_rank
from sok_compat.ranks.identity import current_ranks, is_connected
from sok_compat.serving.stock_functions import use_stock_functions

if TYPE_CHECKING:
    from tensorflow.compat.v1.estimator import Estimator as _Estimator
else:
    _Estimator = object

_logger = logging.getLogger("sok_compat")


def make_estimator(
    model_fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> tf.estimator.Estimator:
    """An Estimator whose methods all ranks have to call alike.

    Args:
      model_fn: as for tf.estimator.Estimator.
      *args, **kwargs: its other arguments. Ranks other than 0 use a temporary model_dir.

    Raises:
      NotImplementedError: this TensorFlow has no tf.estimator.
    """
    if not hasattr(tf, "estimator"):
        raise NotImplementedError(
            f"TensorFlow {tf.__version__} has no tf.estimator, removed after 2.15: use "
            "tf.train.MonitoredTrainingSession, or TensorFlow 2.15"
        )
    return _estimator_class()(model_fn, *args, **kwargs)


@functools.cache
def _estimator_class():
    class CollectiveEstimator(_Methods, _exported_by_rank_0()):
        """As tf.estimator.Estimator; each rank uses its share of the data. API of DeepRec."""

    return CollectiveEstimator


@functools.cache
def _exported_by_rank_0(name: str = "Estimator") -> type:
    """The class `tf.estimator.<name>` of scripts; all of TensorFlow's are its instances."""
    stock = getattr(tf.estimator, name)

    class OfAnyKind(type(stock)):  # type: ignore[misc]
        def __instancecheck__(cls, instance):
            return (
                isinstance(instance, stock) if cls is face else super().__instancecheck__(instance)
            )

    doc = f"As tf.estimator.{name}; trains micro batches; rank 0 exports for all ranks."
    bases = (_InFloat32, _Exports, stock) if name.startswith("DNN") else (_Exports, stock)
    face = OfAnyKind(name, bases, {"__doc__": doc})
    return face


class _Exports(_Estimator):
    """Mixin before a tf.estimator.Estimator: exports a checkpoint of all ranks, on rank 0 only, and
    trains the micro batches that its session configuration asks for."""

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> _Estimator:
        """As in tf.estimator."""
        hooks = with_micro_batches(hooks, self.config.session_config)
        return super().train(input_fn, hooks, *args, **kwargs)

    def latest_checkpoint(self) -> str | None:
        """As in tf.estimator; of rank 0, if this rank has trained in a folder of its own."""
        return tf.train.latest_checkpoint(trained_folder(self.model_dir))

    def eval_dir(self, name: str | None = None) -> str:
        """As in tf.estimator; rank 1 has `eval_rank_1`, since two writers damage an events file."""
        if is_connected() and current_ranks().rank != 0:
            name = f"{name}_rank_{current_ranks().rank}" if name else f"rank_{current_ranks().rank}"
        return super().eval_dir(name)

    def export_saved_model(self, *args: Any, **kwargs: Any) -> bytes | None:
        """As in tf.estimator, on rank 0, with the rows of all ranks; None on other ranks."""
        return _exported(self, super().export_saved_model, args, kwargs)

    def export_savedmodel(self, *args: Any, **kwargs: Any) -> bytes | None:
        """As above, with the older name and arguments."""
        return _exported(self, super().export_savedmodel, args, kwargs)

    def experimental_export_all_saved_models(self, *args: Any, **kwargs: Any) -> bytes | None:
        """As above, for several modes."""
        return _exported(self, super().experimental_export_all_saved_models, args, kwargs)


def _exported(estimator, export, args, kwargs):
    given = inspect.signature(export).bind(*args, **kwargs).arguments
    if not _exports(estimator, given.get("checkpoint_path")):
        return None
    with graphs_of_one_rank():
        folder = export(*args, **kwargs)
    use_stock_functions(folder)
    return folder


def _exports(estimator: _Estimator, checkpoint: str | None) -> bool:
    """Whether this process writes exports: rank 0, or any that shares no tables with other ranks.

    One that has not trained shares them if the checkpoint has tables; without a checkpoint it has
    nothing to export.
    """
    if current_ranks().rank == 0:
        return True
    if is_connected():
        return False
    checkpoint = checkpoint or estimator.latest_checkpoint()
    return checkpoint is not None and not find_tables(tensors_in(chain_of(checkpoint)[0]))


@functools.cache
def _exporter_of_rank_0(name: str) -> type:
    """The class `tf.estimator.<name>` of scripts: it also compares and deletes exports."""
    stock = getattr(tf.estimator, name)

    def export(
        self: Any,
        estimator: _Estimator,
        export_path: str,
        checkpoint_path: str | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """As in tf.estimator, on rank 0; None on other ranks."""
        if not _exports(estimator, checkpoint_path):
            return None
        return stock.export(self, estimator, export_path, checkpoint_path, *args, **kwargs)

    return type(
        name, (stock,), {"__doc__": f"As tf.estimator.{name}, on rank 0.", "export": export}
    )


class _Methods(_Estimator):
    """Mixin before a tf.estimator.Estimator.

    Sessions start with the ordinary variables of rank 0, and embedding variables with the
    checkpoint that rank 0 finds; all ranks save embedding variables together.
    """

    _config: tf.estimator.RunConfig  # of the Estimator

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | None = None,
        config: tf.estimator.RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        config = tf.estimator.RunConfig() if config is None else config
        config = config.replace(session_config=session_config(config.session_config))
        if current_ranks().rank != 0:
            model_dir, config = None, config.replace(model_dir=None)
        self._saves_by_itself = True  # not by a hook of the script
        super().__init__(self._checked(model_fn), model_dir, config, params, warm_start_from)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[tf.train.CheckpointSaverListener] | None = None,
    ) -> _Methods:
        """As in tf.estimator; if rank 0 resumes, all ranks start from its step."""
        if max_steps is not None and max_steps <= self._first_step():
            tf.logging.info("Skipping training: max_steps=%s has been reached.", max_steps)
            return self
        hooks = with_broadcast(hooks)
        self._saves_by_itself = not _saves(hooks)
        return super().train(input_fn, hooks, steps, max_steps, saving_listeners)

    def _first_step(self):
        """The step in the checkpoint of rank 0 that tf.estimator would resume from, or 0."""

        def saved_step():
            checkpoint, name = self.latest_checkpoint(), tf.GraphKeys.GLOBAL_STEP
            is_there = checkpoint and name in tensors_in(checkpoint)
            return int(tf.train.load_variable(checkpoint, name)) if is_there else 0

        return value_of_rank_0("first_step", saved_step)

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """As in tf.estimator, on this rank's share of the data."""
        return super().evaluate(input_fn, steps, with_broadcast(hooks), checkpoint_path, name)

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Sequence[str] | str | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """As in tf.estimator, on this rank's share of the data."""
        hooks = with_broadcast(hooks)
        return super().predict(
            input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples
        )

    def train_and_evaluate(
        self,
        train_spec: tf.estimator.TrainSpec,
        eval_spec: tf.estimator.EvalSpec,
        eval_every_n_iter: int | None = None,
        eval_history: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any] | None:
        """Trains, and evaluates if asked to. API of HybridBackend.

        Args:
          train_spec: a tf.estimator.TrainSpec.
          eval_spec: a tf.estimator.EvalSpec; its delays are ignored, and rank 0 exports once.
          eval_every_n_iter: evaluates, and writes a checkpoint, every so many steps, or once if
            nothing is left to train; None: does not evaluate.
          eval_history: a list to append the metrics of each evaluation to.

        Returns:
          The metrics of the last evaluation; None without one.
        """
        history = [] if eval_history is None else eval_history
        num_before = len(history)

        def evaluate():
            spec = eval_spec
            history.append(self.evaluate(spec.input_fn, spec.steps, spec.hooks, name=spec.name))

        listeners = list(getattr(train_spec, "saving_listeners", None) or [])
        if eval_every_n_iter:
            self._config = self._config.replace(save_checkpoints_steps=eval_every_n_iter)
            listeners.append(_Evaluation(evaluate))
        self.train(
            train_spec.input_fn,
            list(train_spec.hooks),
            max_steps=train_spec.max_steps,
            saving_listeners=listeners,
        )
        if eval_every_n_iter and len(history) == num_before:  # nothing was left to train
            evaluate()
        metrics = history[-1] if len(history) > num_before else None
        if current_ranks().rank == 0:
            for exporter in eval_spec.exporters or []:
                folder = f"{self.model_dir}/export/{exporter.name}"
                exporter.export(self, folder, self.latest_checkpoint(), metrics or {}, True)
        return metrics

    def _checked(self, model_fn):
        def checked(*args, **kwargs):
            spec = model_fn(*args, **kwargs)
            return self._saving_after_broadcast(spec) if is_collective() else spec

        checked.__signature__ = inspect.signature(model_fn)  # tells tf.estimator what to pass
        return checked

    def _saving_after_broadcast(self, spec):
        """The EstimatorSpec, with a hook that writes checkpoints at the same steps on all ranks.

        The Estimator's own hook runs before the broadcast of rank 0's step, and so would count
        steps from another one.
        """
        steps = self.config.save_checkpoints_steps
        if spec.mode != tf.estimator.ModeKeys.TRAIN or not steps or not self._saves_by_itself:
            return spec
        if _saves([*spec.training_hooks, *spec.training_chief_hooks]):
            return spec
        hook = tf.train.CheckpointSaverHook(
            self.model_dir,
            save_steps=steps,
            scaffold=spec.scaffold,
            save_graph_def=self.config.checkpoint_save_graph_def,
        )
        return spec._replace(training_hooks=[*spec.training_hooks, hook])


class _InFloat32(_Estimator):
    """Mixin before a canned estimator with hidden layers: takes DeepRec's argument for their dtype,
    which only makes them faster there, and leaves them float32."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name in ("dnn_dtype", "dtype"):
            dtype = tf.as_dtype(kwargs.pop(name, tf.float32))
            if dtype != tf.float32:
                _logger.warning(
                    f"{type(self).__name__}: {name}={dtype.name} has no effect, the hidden layers "
                    "are float32"
                )
        super().__init__(*args, **kwargs)


def _saves(hooks: Sequence[tf.train.SessionRunHook]) -> bool:
    return any(isinstance(hook, tf.train.CheckpointSaverHook) for hook in hooks)


class _Evaluation(tf.train.CheckpointSaverListener):
    """Calls a function after each checkpoint but the one written when training starts."""

    def __init__(self, evaluate: Callable[[], None]) -> None:
        self._evaluate = evaluate
        self._is_first = True

    def after_save(self, session: tf.Session, global_step_value: int) -> None:
        del session, global_step_value
        if not self._is_first:
            self._evaluate()
        self._is_first = False


def __getattr__(name: str) -> type:
    """The estimators and exporters of scripts: their base classes are slow to import."""
    if f"estimator.{name}" not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    make = _exporter_of_rank_0 if name.endswith("Exporter") else _exported_by_rank_0
    return make(name)
