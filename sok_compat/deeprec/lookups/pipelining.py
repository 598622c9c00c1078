# SPDX-License-Identifier: Apache-2.0
"""DeepRec's stages of a step, which change its speed, not its results.

Here `tf.data` prefetches, and a session runs independent ops in parallel anyway. Only the feeds of
stages have an effect: each step gets the next values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.runtime.known_words import raise_for_unknown_words

_FEEDS = "sok_compat_staged_feeds"  # a collection: (placeholders, iterator of their values)
# What `staged` takes, in DeepRec's tensorflow/python/ops/prefetch.py and in its documents.
_WORDS = (
    *("feed_list", "feed_generator", "items", "feed_dict", "capacity", "num_threads"),
    *("num_clients", "timeout_millis", "closed_exception_types", "ignored_exception_types"),
    *("use_stage_subgraph_thread_pool", "stage_subgraph_thread_pool_id"),
    *("stage_subgraph_stream_id", "name"),
)


def staged(features: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the features unchanged. API of DeepRec.

    Args:
      features: a tensor, or a list or dict of tensors.
      *args: a feed_dict, or the feed_list and feed_generator; others are ignored.
      **kwargs: DeepRec's, of which two count: feed_list, also called `items`, are placeholders for
        the features; feed_generator yields their values, a list for each step, or is a function
        that returns such a generator.

    Raises:
      TypeError: DeepRec's has no such argument.
      ValueError: only one of feed_list and feed_generator is given; a feed_dict that is not empty.
    """
    raise_for_unknown_words("tf.staged", kwargs, _WORDS)
    is_list = bool(args) and isinstance(args[0], (list, tuple))
    by_place = ("feed_list", "feed_generator") if is_list else ("feed_dict",)
    kwargs = {**dict(zip(by_place, args)), **kwargs}
    feed_dict = kwargs.get("feed_dict")
    if feed_dict:
        raise ValueError(
            f"tf.staged takes no feed_dict here, got {feed_dict!r}: make the features of "
            "its values, which are tensors, instead of placeholders"
        )
    placeholders = kwargs.get("feed_list", kwargs.get("items"))
    generator = kwargs.get("feed_generator")
    if (placeholders is None) != (generator is None):
        raise ValueError(
            "tf.staged needs both feed_list and feed_generator, or neither, got "
            f"feed_list={placeholders!r} and feed_generator={generator!r}"
        )
    if generator is not None:
        generator = generator() if callable(generator) else generator
        tf.add_to_collection(_FEEDS, (list(placeholders), iter(generator)))
    return features


def make_prefetch_hook() -> tf.train.SessionRunHook:
    """A `tf.train.SessionRunHook` that feeds the placeholders of `staged`. API of DeepRec.

    A step raises tf.errors.OutOfRangeError when a generator has no more values.
    """
    return _FeedHook()


class _FeedHook(tf.train.SessionRunHook):
    def __init__(self) -> None:
        """Does not call the base class's, which warns that it is deprecated."""

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        feeds: dict[tf.Tensor, Any] = {}
        for placeholders, values in run_context.session.graph.get_collection(_FEEDS):
            feeds.update(zip(placeholders, _next(values)))
        return tf.train.SessionRunArgs(fetches=None, feed_dict=feeds) if feeds else None


def _next(values: Iterator[Any]) -> list[Any] | tuple[Any, ...]:
    for value in values:
        return value if isinstance(value, (list, tuple)) else [value]
    raise tf.errors.OutOfRangeError(None, None, "the feed_generator of tf.staged is exhausted")


def mark_target_node(targets: Any) -> None:
    """Does nothing; in DeepRec it marks the end of an automatic stage. API of DeepRec.

    Args:
      targets: tensors or ops; ignored.
    """
    del targets
