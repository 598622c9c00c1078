# SPDX-License-Identifier: Apache-2.0
"""`tf.ConfigProto` and the messages in it, with the fields that only DeepRec has.

Those fields change no result and are ignored, except for `micro_batch_num` (micro_batches.py). A
protocol message cannot be subclassed, so a wrapper takes them.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, MutableMapping
from typing import Any

import tensorflow.compat.v1 as tf
from google.protobuf.message import Message

from sok_compat.deeprec.collective.micro_batches import ask_for
from sok_compat.deeprec.variables.protocol_enum import ProtocolEnum
from sok_compat.runtime.known_words import meant_word

_logger = logging.getLogger("sok_compat")
_warned_of: set[tuple[str, str]] = set()  # (message, field)
_MESSAGES = {  # {message: its fields in DeepRec alone that are messages, or lists of messages}
    "ConfigProto": {"session_stage_subgraph_thread_pool"},
    "OptimizerOptions": {"async_embedding_options", "smart_stage_options"},
    "RewriterConfig": {"multi_stream_opts"},
}


class ExecutorPolicy(ProtocolEnum):
    """How sessions run ops: `ConfigProto.executor_policy`, ignored here. API of DeepRec."""

    USE_NORMAL_EXECUTOR = 0
    USE_COST_MODEL_EXECUTOR = 1
    USE_INLINE_EXECUTOR = 2


class IgnoredMessage:
    """Replaces a message, or a list of messages, that TensorFlow does not have: takes any field."""

    def __init__(self, **fields: Any) -> None:
        self._messages: list[IgnoredMessage] = []
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, IgnoredMessage())

    def add(self, **fields: Any) -> IgnoredMessage:
        """Appends a message to the list and returns it."""
        self._messages.append(IgnoredMessage(**fields))
        return self._messages[-1]

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> IgnoredMessage:
        return self._messages[index]


class LenientMessage:
    """A protocol message that ignores unknown fields, with one warning for each.

    Ignored values can be read back. TensorFlow takes this object for the message itself.
    """

    __slots__ = ("_ignored", "_message")
    _ignored: dict[str, Any]
    _message: Message

    def __init__(self, message: Message, ignored: dict[str, Any]) -> None:
        object.__setattr__(self, "_message", message)
        object.__setattr__(self, "_ignored", ignored)  # {field: value}; {field: dict} below it

    @property  # type: ignore[misc]
    def __class__(self):
        return type(self._message)

    def __getattr__(self, name: str) -> Any:
        if name in self._ignored and name not in self._message.DESCRIPTOR.fields_by_name:
            return self._ignored[name]
        if name in _MESSAGES.get(self._message.DESCRIPTOR.name, ()):
            setattr(self, name, IgnoredMessage())  # with a warning
            return self._ignored[name]
        value = getattr(self._message, name)
        if isinstance(value, Message):
            return LenientMessage(value, self._ignored.setdefault(name, {}))
        if name in ("CopyFrom", "MergeFrom"):
            return lambda other: self._take(value, other, clears=name == "CopyFrom")
        return value

    def _take(self, merge: Callable[[Any], None], other: Any, clears: bool) -> None:
        merge(_message_of(other))
        if clears:
            self._ignored.clear()
        _add_ignored(self._ignored, _ignored_of(other))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._message.DESCRIPTOR.fields_by_name:
            setattr(self._message, name, value)
            return
        if name == "micro_batch_num":
            ask_for(value)
        else:
            _warn_of(self._message.DESCRIPTOR, name)
        self._ignored[name] = value

    def __eq__(self, other: object) -> bool:
        return self._message == _message_of(other)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> LenientMessage:
        copied = type(self._message)()
        copied.CopyFrom(self._message)
        return LenientMessage(copied, copy.deepcopy(self._ignored, memo))

    __copy__ = lambda self: self.__deepcopy__({})  # noqa: E731

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._message.__reduce_ex__(protocol)

    def __str__(self) -> str:
        return str(self._message)

    __repr__ = __str__


class _LenientClass:
    """Replaces a class of messages: makes LenientMessages."""

    def __init__(self, message_class: Any) -> None:
        self._message_class = message_class
        self.__doc__ = (
            f"As tf.compat.v1.{message_class.DESCRIPTOR.name}. API of DeepRec, whose own fields "
            "are ignored, with a warning."
        )

    def __call__(self, **fields: Any) -> LenientMessage:
        known = self._message_class.DESCRIPTOR.fields_by_name
        given = {name: value for name, value in fields.items() if name in known}
        message = LenientMessage(
            self._message_class(**{name: _message_of(value) for name, value in given.items()}),
            {name: _ignored_of(value) for name, value in given.items() if _ignored_of(value)},
        )
        for name, value in fields.items():
            if name not in known:
                setattr(message, name, value)
        return message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message_class, name)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(_message_of(instance), self._message_class)


class Server(tf.distribute.Server):
    """`tf.train.Server`, which also takes a LenientMessage as its `config`. API of TensorFlow 1."""

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        """Starts it.

        Args:
          server_or_cluster_def, job_name, task_index, protocol, start: see tf.train.Server.
          config: a ConfigProto or a LenientMessage.
        """
        config = _message_of(config)
        super().__init__(server_or_cluster_def, job_name, task_index, protocol, config, start)

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """See tf.train.Server."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)


def _message_of(value: Any) -> Any:
    return value._message if type(value) is LenientMessage else value


def _ignored_of(value: Any) -> dict[str, Any]:
    """A copy of a message's ignored fields; {} for other values."""
    return copy.deepcopy(value._ignored) if type(value) is LenientMessage else {}


def _add_ignored(fields: MutableMapping[str, Any], others: dict[str, Any]) -> None:
    for name, value in others.items():
        if isinstance(value, dict) and isinstance(fields.get(name), dict):
            _add_ignored(fields[name], value)
        else:
            fields[name] = value


def _warn_of(descriptor: Any, field: str) -> None:
    message = descriptor.name
    if (message, field) not in _warned_of:
        _warned_of.add((message, field))
        meant = meant_word(field, descriptor.fields_by_name)
        _logger.warning(
            "%s.%s is ignored: TensorFlow %s has no such field%s",
            *(message, field, tf.__version__, f"; did you mean {meant!r}?" if meant else ""),
        )


ConfigProto = _LenientClass(tf.ConfigProto)
GPUOptions = _LenientClass(tf.GPUOptions)
GraphOptions = _LenientClass(tf.GraphOptions)
OptimizerOptions = _LenientClass(tf.OptimizerOptions)
