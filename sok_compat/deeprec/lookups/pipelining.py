# SPDX-License-Identifier: Apache-2.0
"""DeepRec's stages of a step, which change how fast it is and not what comes out.

`tf.data` reads ahead here, and a session runs what does not wait for something else at once. What
stages are told to feed is fed, step by step.
"""

import tensorflow.compat.v1 as tf

_FEEDS = "sok_compat_staged_feeds"  # a collection: (placeholders, iterator of their values)


def staged(features, *args, **kwargs):
    """The features, as they are. API of DeepRec.

    Args:
      features: a tensor, or a list or dict of them.
      feed_list: the placeholders that they depend on, if any; DeepRec's documents call it items,
        too.
      feed_generator: yields their values, a list for each step.
      others: ignored.

    Raises:
      ValueError: one of feed_list and feed_generator without the other.
    """
    del args
    placeholders = kwargs.get("feed_list", kwargs.get("items"))
    generator = kwargs.get("feed_generator")
    if (placeholders is None) != (generator is None):
        raise ValueError(
            "tf.staged needs both feed_list and feed_generator, or neither, got "
            f"{placeholders!r} and {generator!r}"
        )
    if generator is not None:
        generator = generator() if callable(generator) else generator
        tf.add_to_collection(_FEEDS, (list(placeholders), iter(generator)))
    return features


def make_prefetch_hook(*args, **kwargs):
    """A `tf.train.SessionRunHook` that feeds what stages are to be fed. API of DeepRec.

    When there are no more values, the step raises a tf.errors.OutOfRangeError.
    """
    return _FeedHook()


class _FeedHook(tf.train.SessionRunHook):
    def before_run(self, run_context):
        feeds = {}
        for placeholders, values in run_context.session.graph.get_collection(_FEEDS):
            feeds.update(zip(placeholders, _next(values)))
        return tf.train.SessionRunArgs(fetches=None, feed_dict=feeds) if feeds else None


def _next(values):
    for value in values:
        return value if isinstance(value, (list, tuple)) else [value]
    raise tf.errors.OutOfRangeError(None, None, "the feed_generator of tf.staged has ended")


def mark_target_node(targets):
    """Does nothing: for a stage that DeepRec looks for itself."""
    del targets


NAMES = {
    "make_prefetch_hook": make_prefetch_hook,
    "staged": staged,
    "train.mark_target_node": mark_target_node,
}
