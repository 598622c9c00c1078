# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.framework`."""

from __future__ import annotations

from typing import NoReturn

import tensorflow.compat.v1 as tf
from tensorflow.python.util import nest

from sok_compat.deeprec import contrib
from sok_compat.deeprec.contrib.arg_scopes import add_arg_scope, arg_scope

get_global_step = tf.train.get_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
list_variables = tf.train.list_variables
load_checkpoint = tf.train.load_checkpoint
load_variable = tf.train.load_variable

__all__ = [
    "add_arg_scope",
    "arg_scope",
    "get_global_step",
    "get_or_create_global_step",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "nest",
]


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"framework.{name}")
