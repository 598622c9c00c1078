# SPDX-License-Identifier: Apache-2.0
"""`CollectiveStrategy.estimator`: tf.estimator on several ranks, its folder on rank 0."""

import contextlib
import functools
import inspect

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.distributed_strategy import current_ranks
from sok_compat.deeprec.exported_models import refuse_shared_tables
from sok_compat.deeprec.sessions_of_ranks import session_config, with_broadcast

_FROM_CHECKPOINTS = {"eval": "evaluated", "infer": "used to predict"}  # by tf.estimator.ModeKeys


def make_estimator(model_fn, **kwargs):
    """An Estimator whose methods all ranks call alike.

    Args:
      model_fn: as of tf.estimator.Estimator.
      **kwargs: its other arguments. Other ranks than 0 have a temporary model_dir of their own.

    Raises:
      NotImplementedError: this TensorFlow has no tf.estimator.
    """
    if not hasattr(tf, "estimator"):
        raise NotImplementedError(
            f"TensorFlow {tf.__version__} has no tf.estimator: take tf.train."
            "MonitoredTrainingSession, or TensorFlow 2.15"
        )
    return _estimator_class()(model_fn, **kwargs)


@functools.cache
def _estimator_class():
    class CollectiveEstimator(_Methods, tf.estimator.Estimator):
        """As of tf.estimator; each rank trains and evaluates on its share. API of DeepRec."""

    return CollectiveEstimator


class _Methods:
    """Before a tf.estimator.Estimator.

    Sessions start with the ordinary variables of rank 0. Embedding variables of several ranks are
    not in checkpoints: what restores them, to evaluate, predict or export, raises.
    """

    def __init__(self, model_fn, model_dir=None, config=None, **kwargs):
        config = tf.estimator.RunConfig() if config is None else config
        config = config.replace(session_config=session_config(config.session_config))
        if current_ranks().rank != 0:
            model_dir, config = None, config.replace(model_dir=None)
        self._restores_for = None  # what a checkpoint is read for next
        super().__init__(self._checked(model_fn), model_dir, config, **kwargs)

    def train(self, input_fn, hooks=None, **kwargs):
        """As of tf.estimator."""
        return super().train(input_fn, with_broadcast(hooks), **kwargs)

    def evaluate(self, input_fn, steps=None, hooks=None, **kwargs):
        """As of tf.estimator, of this rank's share."""
        return super().evaluate(input_fn, steps, with_broadcast(hooks), **kwargs)

    def predict(self, input_fn, predict_keys=None, hooks=None, **kwargs):
        """As of tf.estimator, of this rank's share."""
        return super().predict(input_fn, predict_keys, with_broadcast(hooks), **kwargs)

    def train_and_evaluate(self, train_spec, eval_spec, eval_every_n_iter=None, eval_history=None):
        """Trains, and evaluates at the end.

        Args:
          train_spec: a tf.estimator.TrainSpec.
          eval_spec: a tf.estimator.EvalSpec; its times do not count, and rank 0 exports once.
          eval_every_n_iter: evaluates, and writes a checkpoint, every so many steps as well.
          eval_history: a list that gets the metrics of each evaluation.

        Returns:
          The metrics of the last evaluation.
        """
        history = [] if eval_history is None else eval_history

        def evaluate():
            spec = eval_spec
            history.append(self.evaluate(spec.input_fn, spec.steps, spec.hooks, name=spec.name))

        listeners = list(getattr(train_spec, "saving_listeners", None) or [])
        if eval_every_n_iter:
            self._config = self._config.replace(save_checkpoints_steps=eval_every_n_iter)
            listeners.append(_Evaluation(evaluate))
        with self._restoring_for("evaluated"):  # refused before it trains
            self.train(
                train_spec.input_fn,
                list(train_spec.hooks),
                max_steps=train_spec.max_steps,
                saving_listeners=listeners,
            )
        if not eval_every_n_iter:
            evaluate()
        if current_ranks().rank == 0:
            for exporter in eval_spec.exporters or []:
                folder = f"{self.model_dir}/export/{exporter.name}"
                exporter.export(self, folder, self.latest_checkpoint(), history[-1], True)
        return history[-1] if history else None

    def export_saved_model(self, *args, **kwargs):
        """As of tf.estimator, on rank 0; None on the others.

        Raises:
          NotImplementedError: the model has embedding variables of several ranks.
        """
        if current_ranks().rank != 0:
            return None
        with self._restoring_for("exported"):
            return super().export_saved_model(*args, **kwargs)

    @contextlib.contextmanager
    def _restoring_for(self, what):
        before, self._restores_for = self._restores_for, what
        try:
            yield
        finally:
            self._restores_for = before

    def _checked(self, model_fn):
        def checked(*args, **kwargs):
            spec = model_fn(*args, **kwargs)
            what = self._restores_for or _FROM_CHECKPOINTS.get(spec.mode)
            if what is not None:
                refuse_shared_tables(what)
            return spec

        checked.__signature__ = inspect.signature(model_fn)  # by which arguments are given
        return checked


class _Evaluation(tf.train.CheckpointSaverListener):
    """Calls a function at each checkpoint but the one that training starts with."""

    def __init__(self, evaluate):
        self._evaluate = evaluate
        self._is_first = True

    def after_save(self, session, global_step_value):
        del session, global_step_value
        if not self._is_first:
            self._evaluate()
        self._is_first = False
