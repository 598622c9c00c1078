# SPDX-License-Identifier: Apache-2.0
"""What functions with the names and arguments of TensorFlow's feature columns have in common."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from sok_compat.runtime.tf_versions import silence_deprecation
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

_logger = logging.getLogger("sok_compat")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def of_tensorflow(function: _Function) -> _Function:
    """Makes a function raise if this TensorFlow lacks parts of its feature columns, and silences
    their deprecation warnings."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if stock.missing is not None:
            raise NotImplementedError(
                f"tf.feature_column.{function.__name__}: TensorFlow {tf.__version__} lacks the "
                f"feature columns that sok_compat builds on: {stock.missing}"
            )
        with silence_deprecation():
            return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def ignore_fusion(do_fusion: Any) -> None:
    """Logs once that the argument `do_fusion` is ignored, if it is set."""
    if do_fusion:
        _say_fusion_is_ignored()


@functools.cache
def _say_fusion_is_ignored() -> None:
    _logger.warning("do_fusion of tf.feature_column is ignored: it changes no result")
