# SPDX-License-Identifier: Apache-2.0
"""Warns of ranks that read the same rows, as their tf.data pipelines are the same.

A script without a shard feeds all ranks the same batches, and trains as one process with the batch
of one rank. Ranks compare fingerprints of their pipelines where they start a session that trains
and wait for one another anyway. A pipeline whose rows its graph does not determine (Python code,
shuffles without a seed, placeholders) has none, and neither do ranks of different machines compare
equal, as their files may differ.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.sessions.savers_of_ranks import has_shared_tables
from sok_compat.ranks.allgather_strings import allgather_strings
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.tf_versions import op_def_registry

_ROOTS = ("MakeIterator", "OneShotIterator")  # ops that give an iterator its dataset
# Stateful ops that give the same rows in each process.
_READERS = (
    *("CSVDataset", "FixedLengthRecordDataset", "RangeDataset", "SparseTensorSliceDataset"),
    *("TFRecordDataset", "TensorDataset", "TensorSliceDataset", "TextLineDataset"),
)
_SAME_IN_EACH_PROCESS = {f"{name}{version}" for name in _READERS for version in ("", "V2")}
_ITERATORS = {*_ROOTS, "Iterator", "IteratorV2"}
_logger = logging.getLogger("sok_compat")


class InputCheck(tf.train.SessionRunHook):
    """Compares the ranks' pipelines after the first session is made, on all ranks; those of graphs
    with shared tables are compared with the session's hooks."""

    def __init__(self) -> None:
        self._is_done = False

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Warns on rank 0."""
        del coord
        if self._is_done or has_shared_tables(session.graph):
            return
        self._is_done = True
        text = text_of_input(session.graph)
        warn_of_same_input(allgather_strings("input_of_ranks", text, session.graph))


def text_of_input(graph: tf.Graph) -> str:
    """The fingerprint of a graph's pipelines, of this host; '' if they have none."""
    digest = fingerprint(graph.as_graph_def())
    return digest and f"{socket.gethostname()} {digest}"


def trains(graph: tf.Graph) -> bool:
    """Whether the graph has gradients of tables that ranks share."""
    return any(op.type == "SokExchangeValues" for op in graph.get_operations())


def warn_of_same_input(texts: list[str]) -> None:
    """Warns on rank 0, once, if texts of several ranks are the same."""
    message = "" if current_ranks().rank else _message(texts)
    if message:
        _warn_once(message)


@functools.cache
def _warn_once(message):
    _logger.warning(message)


def fingerprint(graph_def: tf.GraphDef) -> str:
    """A digest of all tf.data pipelines of a graph, equal only where their rows are.

    Returns:
      '' if there is no pipeline, or if the rows are not determined by the graph.
    """
    if any(node.op == "Placeholder" or "Queue" in node.op for node in graph_def.node):
        return ""  # which may be fed with rows
    by_name, needed = {node.name: node for node in graph_def.node}, {}
    ahead = [node for node in graph_def.node if node.op in _ROOTS]
    while ahead:
        node = ahead.pop()
        if node.name not in needed:
            needed[node.name] = node
            ahead += [by_name[_node_of(each)] for each in node.input]
    functions = {each.signature.name: each for each in graph_def.library.function}
    return _Digests(functions).of_nodes(needed.values()) if needed else ""


class _Digests:
    """Digests of functions and of what calls them; '' where rows are not determined.

    The name of a function has a number of its process, so its digest stands in the place of that.
    """

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions
        self._known: dict[str, str] = {}

    def of_nodes(self, nodes: Iterable[Any]) -> str:
        by_name = {node.name: node for node in nodes}
        digest = hashlib.sha256()
        for _, node in sorted(by_name.items()):
            renamed = self._renamed(node) if _is_determined(node, by_name) else None
            if renamed is None:
                return ""
            digest.update(renamed.SerializeToString(deterministic=True))
        return digest.hexdigest()

    def _renamed(self, node):
        """The NodeDef with digests for the names of functions; None if one has no digest."""
        if not any(_functions_of(node)):
            return node
        renamed = type(node)()
        renamed.CopyFrom(node)
        for each in _functions_of(renamed):
            each.name = self._of_function(each.name)
            if not each.name:
                return None
        return renamed

    def _of_function(self, name):
        if name not in self._functions:
            return name
        if name not in self._known:
            self._known[name] = "itself"
            function = self._functions[name]
            digest, results = self.of_nodes(function.node_def), sorted(function.ret.items())
            self._known[name] = digest and f"{digest} {results}"
        return self._known[name]


def _message(texts: list[str]) -> str:
    """The warning, for the ranks' texts; '' if all have input of their own."""
    of_text = collections.defaultdict(list)
    for rank, text in enumerate(texts):
        of_text[text].append(rank)
    same = [ranks for text, ranks in of_text.items() if text and len(ranks) > 1]
    if not same:
        return ""
    ranks = same[0]
    return (
        f"ranks {', '.join(map(str, ranks))} read the same rows, as their tf.data pipelines are "
        f"the same: {len(ranks)} ranks then train as one rank would. Give each its share, before "
        "the dataset is shuffled and batched: dataset.shard(hvd.size(), hvd.rank())"
    )


def _functions_of(node: Any) -> Iterator[Any]:
    """Yields the functions in the attributes of a NodeDef."""
    for value in node.attr.values():
        if value.WhichOneof("value") == "func":
            yield value.func
        yield from value.list.func


def _is_determined(node: Any, by_name: dict[str, Any]) -> bool:
    """Whether an op gives the same in each process that has the same files.

    Args:
      node: its NodeDef.
      by_name: {name: NodeDef} of the graph or function that it is in.
    """
    if node.op.startswith("Shuffle"):  # two zeros: the process draws its own seed
        return any(map(_is_not_zero, _seeds_of(node, by_name)))
    if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
        return False
    op_def = op_def_registry.get(node.op)
    is_same = node.op in _SAME_IN_EACH_PROCESS or node.op in _ITERATORS
    return is_same or (op_def is not None and not op_def.is_stateful)


def _seeds_of(node: Any, by_name: dict[str, Any]) -> list[Any]:
    """The ops that give a shuffle its seeds; None for an argument of a function."""
    names = [each.name for each in op_def_registry.get(node.op).input_arg]
    inputs = dict(zip(names, node.input))
    return [by_name.get(_node_of(inputs[name])) for name in ("seed", "seed2") if name in inputs]


def _is_not_zero(node: Any) -> bool:
    if node is None or node.op != "Const":
        return False
    return bool(tf.make_ndarray(node.attr["value"].tensor))


def _node_of(name: str) -> str:
    return name.lstrip("^").partition(":")[0]
