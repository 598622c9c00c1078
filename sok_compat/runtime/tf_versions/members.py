# SPDX-License-Identifier: Apache-2.0
"""Private members of TensorFlow's objects, a function for each use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

# Graphs and operations.


def function_in(graph: tf.Graph, name: str) -> Any:
    """The FunctionDef of a name that ops of a graph may call, or None; as_graph_def() would write
    the whole graph to find it."""
    function = graph._get_function(name)
    return None if function is None else function.cached_definition


def control_flow_context(graph_or_op: tf.Graph | tf.Operation) -> Any:
    """The loop or branch of TensorFlow 1 being built in a graph, or an op's, or None."""
    return graph_or_op._get_control_flow_context()


@contextlib.contextmanager
def extending(graph: tf.Graph) -> Iterator[None]:
    """Context that adds ops to a graph, also to one that a session for training has finalized."""
    is_final = graph.finalized
    graph._unsafe_unfinalize()
    try:
        with graph.as_default():
            yield
    finally:
        if is_final:
            graph.finalize()


@contextlib.contextmanager
def outside_loop(loop: Any) -> Iterator[None]:
    """Context that adds ops to what is around a loop of TensorFlow 1, the one being built."""
    loop.Exit()
    if loop.outer_context:
        loop.outer_context.Enter()
    yield
    if loop.outer_context:
        loop.outer_context.Exit()
    loop.Enter()


def reroute_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Replaces an input of an op that no session has run yet."""
    op._update_input(index, tensor)


def replace_control_inputs(op: tf.Operation, control_inputs: Sequence[tf.Operation]) -> None:
    """Replaces the control inputs of an op that no session has run yet."""
    op._remove_all_control_inputs()
    op._add_control_inputs(control_inputs)


def set_attribute(op: tf.Operation, name: str, value: Any) -> None:
    """Sets an attribute, an AttrValue, of an op that no session has run yet."""
    op._set_attr(name, value)


# Variables and objects of checkpoints.


def unique_id(variable: tf.Variable) -> str:
    """The id that no other variable of the process has."""
    return variable._unique_id


def reference_of(variable: tf.Variable) -> tf.Tensor:
    """The reference of a variable of TensorFlow 1."""
    return variable._ref()


def parts_of(variable: Any) -> list[tf.Variable]:
    """The variables that a partitioned variable consists of; of another, itself alone."""
    return list(variable) if hasattr(variable, "_get_variable_list") else [variable]


def read_by(variable: tf.Variable, read: Callable[[], tf.Tensor]) -> tf.Variable:
    """Makes a variable of this package, of after an update, read its value by a function."""
    variable._read_variable_op = read
    if variable._graph_element is not None:  # what a session fetches
        variable._graph_element = read()
    return variable


def save_nothing_of(variable: tf.Variable) -> None:
    """Leaves a variable of this package out of checkpoints, also in a list of an optimizer."""
    variable._serialize_to_tensors = dict


def save_mark_of(variable: tf.Variable, name: str) -> None:
    """Saves one boolean in place of a variable of this package in a variable of Keras 3.

    Where an optimizer makes it after the restore, TensorFlow matches it only if it has a value.
    """
    variable._serialize_to_tensors = lambda: {name: tf.constant(True)}
    variable._restore_from_tensors = lambda restored: None


def children(trackable: Any) -> dict[str, Any]:
    """{name: object} of the objects in checkpoints below an object."""
    return trackable._trackable_children()


def forget_dependency(trackable: Any, name: str) -> None:
    """Removes a dependency, by its name, from an object's dependencies in checkpoints."""
    del trackable._self_unconditional_dependency_names[name]
    found = trackable._self_unconditional_checkpoint_dependencies
    found[:] = [reference for reference in found if reference.name != name]


def keep_until_restored(status: Any, attribute: str, value: Any) -> None:
    """Keeps a value with a restored checkpoint, for deferred restores."""
    setattr(status._checkpoint, attribute, value)


def drawn_seed(initializer: Any) -> int | None:
    """The seed of an initializer of Keras 3, which draws one if given none; else its `seed`."""
    return getattr(initializer, "_init_seed", getattr(initializer, "seed", None))


def initial_weights(layer: Any) -> Any:
    """The arrays of the `weights=` argument of a Keras layer that has not been called; or None."""
    return getattr(layer, "_initial_weights", None)


def pass_initial_weights(layer: Any, arrays: Any) -> None:
    """Makes a Keras layer start with arrays, as if they were its `weights=` argument."""
    layer._initial_weights = arrays


# Optimizers.


def create_slots(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Creates the slots of an optimizer of tf.compat.v1.train."""
    optimizer._create_slots(variables)


@contextlib.contextmanager
def without_creating_slots(optimizer: Any) -> Iterator[None]:
    """Context in which an optimizer of tf.compat.v1.train creates no slots, as they exist."""
    optimizer.__dict__["_create_slots"] = lambda variables: None
    try:
        yield
    finally:
        del optimizer.__dict__["_create_slots"]


def slot_key(variable: tf.Variable) -> Any:
    """The key of a variable among the slots of an optimizer of tf.compat.v1.train."""
    return variable._graph_key, variable._unique_id


def slot_key_of_keras(variable: tf.Variable) -> str:
    """The key of a variable among the slots of an optimizer of tf.keras.optimizers.legacy."""
    return variable._shared_name if variable._in_graph_mode else variable._unique_id


def updates_sparsely_as(optimizer: Any, *kinds: Any) -> bool:
    """Whether an optimizer has the update by sparse gradients of one of some classes."""
    update = getattr(type(optimizer), "_resource_apply_sparse", None)
    return any(update is kind._resource_apply_sparse for kind in kinds)


def has_momentum(rms_prop: Any) -> bool:
    """Whether an RMSprop of tf.keras.optimizers.legacy has a momentum."""
    return bool(rms_prop._momentum)


def learning_rate_tensor(descent: tf.compat.v1.train.GradientDescentOptimizer) -> tf.Tensor:
    """The learning rate of an optimizer that has made its slots."""
    return descent._learning_rate_tensor


def counts_steps(optimizer: Any) -> bool:
    """Whether an optimizer counts its steps in a variable."""
    return hasattr(optimizer, "_iterations")


@contextlib.contextmanager
def counting_in(optimizer: Any, iterations: tf.Variable) -> Iterator[None]:
    """Context in which an optimizer counts its steps in another variable."""
    own, optimizer._iterations = optimizer._iterations, iterations
    try:
        yield
    finally:
        optimizer._iterations = own


@contextlib.contextmanager
def new_variables_of(optimizer: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Context in which an optimizer of tf.keras.optimizers makes variables without numbering them.

    Yields:
      (its earlier variables, a list that gets the new ones).
    """
    numbered = optimizer._variables
    made: list[Any] = []
    optimizer.__dict__["_variables"] = made  # the list that the optimizer appends to
    try:
        yield numbered, made
    finally:
        optimizer.__dict__["_variables"] = numbered


# Savers, hooks and sessions.


def is_empty(saver: tf.compat.v1.train.Saver) -> bool:
    """Whether a tf.train.Saver has no variables."""
    return saver._is_empty


def note_checkpoint(saver: tf.compat.v1.train.Saver, path: str) -> None:
    """Adds a path to the last checkpoints of a tf.train.Saver."""
    saver._RecordLastCheckpoint(path)


def delete_no_old_checkpoints(saver: tf.compat.v1.train.Saver) -> None:
    """Makes a tf.train.Saver forget the checkpoints that it would delete."""
    saver._checkpoints_to_be_deleted.clear()


def delete_old_checkpoints(saver: tf.compat.v1.train.Saver, suffix: str) -> None:
    """Deletes those checkpoints of a tf.train.Saver that are too many."""
    saver._MaybeDeleteOldCheckpoints(meta_graph_suffix=suffix)


def saves_relative_paths(saver: tf.compat.v1.train.Saver) -> bool:
    """Whether a tf.train.Saver writes relative paths into the file `checkpoint`."""
    return saver._save_relative_paths


def give_saver(scaffold: tf.compat.v1.train.Scaffold, saver: tf.compat.v1.train.Saver) -> None:
    """Gives a tf.train.Scaffold without a saver one."""
    scaffold._saver = saver


def graph_of(manager: tf.compat.v1.train.SessionManager) -> tf.Graph:
    """The graph of a manager's sessions."""
    return manager._graph


def scaffold_of(creator: Any) -> Any:
    """The scaffold of a creator of sessions, or of a hook; None if it has none."""
    return getattr(creator, "_scaffold", None)


def saver_given_to(hook: tf.compat.v1.train.CheckpointSaverHook) -> Any:
    """The saver that a tf.train.CheckpointSaverHook was given, or None."""
    return hook._saver


def path_of(hook: tf.compat.v1.train.CheckpointSaverHook) -> str:
    """The path without steps that a tf.train.CheckpointSaverHook saves to."""
    return str(hook._save_path)


def interval_of(hook: tf.compat.v1.train.CheckpointSaverHook) -> tuple[float | None, int | None]:
    """(seconds, steps) between two checkpoints of a tf.train.CheckpointSaverHook; one is None."""
    return hook._timer._every_secs, hook._timer._every_steps


def listeners_of(hook: tf.compat.v1.train.CheckpointSaverHook) -> Sequence[Any]:
    """The listeners of a tf.train.CheckpointSaverHook."""
    return hook._listeners


def folder_of_events(hook: tf.compat.v1.train.SessionRunHook) -> str:
    """The folder in which a hook will write events; '': it has a writer, or no folder."""
    return str(hook._output_dir or "") if hook._summary_writer is None else ""


def write_events_by(hook: tf.compat.v1.train.SessionRunHook, writer: Any) -> None:
    """Gives a hook that writes events another writer."""
    hook._summary_writer = writer


@contextlib.contextmanager
def deleting_by(manager: tf.train.CheckpointManager, delete: Callable[[], None]) -> Iterator[None]:
    """Context in which a manager deletes old checkpoints by a function."""
    manager._sweep = delete
    try:
        yield
    finally:
        del manager._sweep


def delete_checkpoints(manager: tf.train.CheckpointManager) -> None:
    """Deletes the checkpoints that a manager does not keep."""
    type(manager)._sweep(manager)


def checkpoints_kept_by(manager: tf.train.CheckpointManager) -> tuple[Any, float]:
    """(an ordered dict of its checkpoints, the time of the last one that it keeps for good)."""
    return manager._maybe_delete, manager._last_preserved_timestamp


def preserve_since(manager: tf.train.CheckpointManager, timestamp: float) -> None:
    """Sets the time of the last checkpoint that a manager keeps for good."""
    manager._last_preserved_timestamp = timestamp
