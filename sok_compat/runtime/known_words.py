# SPDX-License-Identifier: Apache-2.0
"""Words that a callable takes, and the one that was probably meant by another."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

_Init = TypeVar("_Init", bound=Callable[..., None])

# What the base class of Keras's layers takes, of Keras 2 or 3.
KERAS_LAYER_WORDS = (
    *("activity_regularizer", "autocast", "batch_input_shape", "batch_shape", "batch_size"),
    *("dtype", "dynamic", "implementation", "input_dim", "input_shape", "name", "trainable"),
    "weights",
)

# What tf.Variable takes and a table takes without effect.
VARIABLE_WORDS = (
    *("validate_shape", "caching_device", "variable_def", "import_scope", "expected_shape"),
    *("synchronization", "aggregation", "use_resource", "experimental_enable_variable_lifting"),
)
# Those of Keras 2's optimizers that sok.optimizers.Adam does not have.
OPTIMIZER_WORDS = ("clipnorm", "clipvalue", "decay", "global_clipnorm", "gradient_transformers")


def meant_word(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that `word` is nearest to, or None if none is near."""
    return next(iter(difflib.get_close_matches(word, [*known], n=1)), None)


def raise_for_unknown_words(user: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError if one of the keyword arguments of a callable is none that it knows."""
    known = [*known]
    for word in given:
        if word in known:
            continue
        parts = (one for one in known if one.startswith(word) or word in one.split("_"))
        meant = meant_word(word, known) or next(parts, None)
        way_out = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(known)}"
        raise TypeError(f"{user} has no argument {word!r}: {way_out}")


def checks_words(others: Iterable[str] = ()) -> Callable[[_Init], _Init]:
    """Makes an `__init__` raise for unknown words, before Python misses those that were meant.

    Args:
      others: the words that its **kwargs take.
    """

    def decorate(init: _Init) -> _Init:
        signature = inspect.signature(init)
        named = [*signature.parameters.values()][1:]
        known = [one.name for one in named if one.kind is not one.VAR_KEYWORD] + [*others]

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            raise_for_unknown_words(type(self).__name__, kwargs, known)
            init(self, *args, **kwargs)

        checked.__signature__ = signature  # type: ignore[attr-defined]  # as Keras 3 looks at it
        return cast("_Init", checked)

    return decorate
