# SPDX-License-Identifier: Apache-2.0
"""Which tables a folder has files of, told where a table is not among them."""

import tensorflow as tf

KEYS_SUFFIX = "_keys.file"
_NUM_NAMED = 20


def check_table_is_there(folder, name, words):
    """Makes the check of a table's file of keys in a folder, for when it is run.

    Args:
      folder: string tensor.
      name: of the table.
      words: Words, for the message.

    Returns:
      The op. Running it raises InvalidArgumentError, which names up to 20 other tables, if the
      folder has files of those alone. Where there are none, the file's reader says more.
    """
    with tf.device("/CPU:0"):
        # A session would list files of a constant folder once, before its first step.
        folder = tf.where(tf.timestamp() > 0, folder, "")
        here = _as_pattern(folder)
        own = tf.io.matching_files(tf.strings.join([here, "/", f"{_as_glob(name)}{KEYS_SUFFIX}"]))
        plain, in_scopes = f"/*{KEYS_SUFFIX}", f"/*/*{KEYS_SUFFIX}"
        names = tf.concat([_names(here, plain, 1), _names(here, in_scopes, 2)], axis=0)
        is_fine = tf.logical_or(tf.size(own) > 0, tf.equal(tf.size(names), 0))
        message = tf.strings.join(
            [
                f"there is no table {name} in ",
                folder,
                ", but ",
                tf.strings.reduce_join(names[:_NUM_NAMED], separator=", "),
                f": {words.restore}(..., name=...) takes the name under which it was dumped",
            ]
        )
        return tf.debugging.Assert(is_fine, [message])


def _names(here, pattern, num_parts):
    """The tables whose names have so many parts."""
    paths = tf.io.matching_files(tf.strings.join([here, pattern]))
    parts = "/".join(["[^/]+"] * num_parts)
    return tf.strings.regex_replace(paths, rf"^(?:.*/)?({parts}){KEYS_SUFFIX}$", r"\1")


def _as_pattern(folder):
    """A pattern that matches a path alone, without a slash at its end."""
    path = tf.strings.regex_replace(folder, "/+$", "")
    return tf.strings.regex_replace(path, r"[\[\]*?\\]", r"\\\0")


def _as_glob(name):
    return "".join(f"\\{x}" if x in "[]*?\\" else x for x in name)
