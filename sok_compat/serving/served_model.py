# SPDX-License-Identifier: Apache-2.0
"""`ServedModel`: a model in a session, whose contents change between two requests."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.increments import SEEDS
from sok_compat.checkpoint.parts.rows_saveable import RowsSaveable
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints, with_tables
from sok_compat.checkpoint.streams.streamed_save import StreamedTable
from sok_compat.ranks.collectives import graphs_of_one_rank
from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import Variable
from sok_compat.serving.request_gate import RequestGate
from sok_compat.serving.saved_model import ZEROS, signatures_of, starting_as
from sok_compat.serving.versions import Version, chain_to

tf1 = tf.compat.v1
_logger = logging.getLogger(__name__)


class NoContentsError(RuntimeError):
    """There is nothing to serve."""


@dataclasses.dataclass(frozen=True)
class Changes:
    """What makes a version of the contents that there are.

    Attributes:
      version: the version.
      feeds: of the ops that write it; None: all contents are replaced.
    """

    version: Version
    feeds: Mapping[Any, np.ndarray] | None


class ServedModel:
    """A model in a session, whose contents change between two requests.

    Attributes:
      contents: the version that the session holds; None while that is none, or unknown.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Callable[[], Any],
        missing_keys: str,
        config: tf.compat.v1.ConfigProto | None,
    ) -> None:
        """Builds the graph.

        Args:
          model: as for Follower.
          missing_keys: as for export_saved_model.
          config: of the session.

        Raises:
          ValueError: `model` returns no signatures.
          NotImplementedError: the model has tables that are saved as parts of whole arrays, or
            contents that are neither tables of ours nor variables.
        """
        save_tables_in_checkpoints()
        self._gate = RequestGate()
        config = config or tf1.ConfigProto(allow_soft_placement=True)
        graph = tf.Graph()
        self._session, self._staging = (tf1.Session(graph=graph, config=config) for _ in range(2))
        with graph.as_default(), graphs_of_one_rank(), starting_as(missing_keys):
            self.contents = None if callable(model) else _own_contents(os.fspath(model))
            self._seeds = _seeds_in(self.contents) if self.contents else {}
            self._has_seeds = missing_keys != ZEROS
            if callable(model):
                signatures = signatures_of(model())
            else:
                loaded = tf1.saved_model.load(self._session, ["serve"], os.fspath(model))
                signatures = dict(loaded.signature_def)
            self._signatures = {
                name: _Signature(self._session, each) for name, each in signatures.items()
            }
            _refuse_other_contents()
            self._saver = tf1.train.Saver(allow_empty=True)
            self._make_swap_ops()
            on_load = tf.group(tf1.local_variables_initializer(), tf1.tables_initializer())
        graph.finalize()
        self._session.run(on_load)

    def _make_swap_ops(self) -> None:
        saveables = with_tables(tf1.global_variables())
        self._path = tf1.placeholder(tf.string, [])
        self._is_next = tf1.placeholder(tf.bool, [])
        tables = [each for each in saveables if isinstance(each, StreamedTable)]
        if not all(isinstance(each, RowsSaveable) for each in tables):
            raise NotImplementedError(
                "tables that are saved as parts of whole arrays have no increments: export such a "
                "model by sok_compat.serving.follow"
            )
        self._changes = [each.changes(self._path, self._is_next) for each in tables]
        variables = [each for each in saveables if isinstance(each, Variable)]
        self._values = [each.value() for each in variables]
        if variables:
            self._saver_of_others = tf1.train.Saver(variables)
        self._names_of_others = [each.op.name for each in variables]
        swaps, self._feeds = [], []
        for table, changes in zip(tables, self._changes):
            given = [tf1.placeholder(each.dtype, each.shape) for each in changes]
            self._feeds += given
            with tf.device(table.device):
                swaps.append(ops.sok_apply_changes(table.table.table_handle, *given))
        for variable in variables:
            given = tf1.placeholder(variable.dtype.base_dtype, variable.shape)
            self._feeds.append(given)
            has_shape = variable.shape.is_fully_defined()
            swaps.append(tf1.assign(variable, given, validate_shape=has_shape).op)
        self._swap = tf.group(*swaps)

    def run(self, inputs: Mapping[str, Any], signature: str) -> dict[str, Any]:
        """The outputs of a signature, all of one version."""
        if signature not in self._signatures:
            raise ValueError(f"the model has no signature {signature!r}: {list(self._signatures)}")
        with self._gate.request():
            if self.contents is None:
                raise NoContentsError
            return self._signatures[signature](inputs)

    def restore(self, version: Version) -> None:
        """Replaces all contents.

        Raises:
          FileError: a file is missing, damaged, or does not fit; there are no contents then.
        """
        with self._gate.swap():
            self._restore(version)

    def _restore(self, version: Version) -> None:
        self.contents = None
        if Version.at(version.prefix).id != version.id:
            raise FileError(f"{version.prefix} has been replaced")
        with self._session.graph.as_default(), _as_file_errors():
            self._saver.restore(self._session, version.prefix)
        self._seeds = _seeds_in(chain_to(version)[0])
        self.contents = version

    def read(self, version: Version) -> Changes:
        """What a version changes, for `swap`; requests go on.

        Raises:
          FileError: a file is missing, damaged, or does not fit.
        """
        prefix = version.prefix
        is_next = self.contents is not None and version.base_id == self.contents.id
        if not is_next and self._has_seeds and _seeds_in(chain_to(version)[0]) != self._seeds:
            return Changes(version, None)  # missing keys have other first values
        bundle = Bundle(prefix)
        for name in bundle.tensors.keys() & set(self._names_of_others):
            bundle.check(name)  # TensorFlow's reader ends the process if it is damaged
        with _as_file_errors():
            if self._values:
                restore = self._saver_of_others.saver_def
                self._staging.run(restore.restore_op_name, {restore.filename_tensor_name: prefix})
            values = self._staging.run(self._values)
            given = {self._path: prefix, self._is_next: is_next}
            changes = self._session.run(self._changes, given)
        return Changes(version, dict(zip(self._feeds, [*tf.nest.flatten(changes), *values])))

    def swap(self, changes: Changes) -> None:
        """Makes what `read` returned the contents, between two requests.

        If that fails, the version before is restored from its files, also before the next request;
        if those are gone, there are no contents. The first error is raised.
        """
        with self._gate.swap():
            before, self.contents = self.contents, None
            assert before is not None
            try:
                if changes.feeds is None:
                    self._restore(changes.version)
                else:
                    self._session.run(self._swap, changes.feeds)
                    self.contents = changes.version
            except BaseException:  # an interrupt, too
                try:
                    self._restore(before)
                except Exception as error:
                    _logger.error("nothing is served: %s", first_line(error, None))
                raise

    def close(self) -> None:
        """Ends the sessions once the requests that run have ended; later ones fail."""
        with self._gate.swap():
            self._session.close()
            self._staging.close()


def _own_contents(folder: str) -> Version:
    """Those of a SavedModel."""
    prefix = os.path.join(folder, "variables", "variables")
    try:
        return Version.at(prefix)
    except FileError:  # it has no variables, or is not on this machine
        return Version(prefix, "", None, 0.0)


def _seeds_in(whole: Version) -> dict[str, int]:
    """{name: number} of what the first values of keys are drawn from, in a whole checkpoint."""
    try:
        bundle = Bundle(whole.prefix)
    except FileError:
        return {}  # whoever reads the file tells
    names = [
        name
        for name in bundle.tensors
        for seed, keys in SEEDS.items()
        if name.endswith(seed) and name.removesuffix(seed) + keys in bundle.tensors
    ]
    pieces = [(name, piece) for name in names for piece in bundle.array(name).pieces()]
    return {name: int(np.ravel(piece)[0]) for name, piece in pieces if np.size(piece)}


def _refuse_other_contents() -> None:
    """Raises NotImplementedError if a checkpoint has contents that no swap changes."""
    for other in tf1.get_collection(tf1.GraphKeys.SAVEABLE_OBJECTS):  # of tf.lookup
        raise NotImplementedError(
            f"{other.name} would keep the contents of the first version, as only embedding tables "
            "and variables are followed: keep it out of the served model"
        )


@contextlib.contextmanager
def _as_file_errors() -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, ValueError) as error:
        raise FileError(first_line(error, None)) from error


class _Signature:
    """Runs a signature of a session's graph."""

    def __init__(self, session: tf.compat.v1.Session, signature: Any) -> None:
        self._session, graph = session, session.graph
        self._inputs = {n: _tensor_of(info, graph) for n, info in signature.inputs.items()}
        self._outputs = {n: _tensor_of(info, graph) for n, info in signature.outputs.items()}

    def __call__(self, inputs):
        if inputs.keys() != self._inputs.keys():
            raise ValueError(
                f"the signature has the inputs {sorted(self._inputs)}, got {sorted(inputs)}"
            )
        feeds = {self._inputs[name]: value for name, value in inputs.items()}
        return self._session.run(self._outputs, feeds)


def _tensor_of(info, graph):
    """The Tensor or SparseTensor of a TensorInfo."""
    tensor = graph.get_tensor_by_name
    if info.WhichOneof("encoding") != "coo_sparse":
        return tensor(info.name)
    sparse = info.coo_sparse
    parts = sparse.indices_tensor_name, sparse.values_tensor_name, sparse.dense_shape_tensor_name
    return tf.SparseTensor(*map(tensor, parts))
