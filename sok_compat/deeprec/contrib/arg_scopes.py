# SPDX-License-Identifier: Apache-2.0
"""`arg_scope`: arguments that several calls of layers have in common.

After tensorflow/contrib/framework/python/ops/arg_scope.py of TensorFlow 1.15.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

_Scope = Mapping[str, Mapping[str, Any]]  # {function: {argument: value}}
_Function = TypeVar("_Function", bound=Callable[..., Any])

_current: contextvars.ContextVar[_Scope] = contextvars.ContextVar("arg_scope")


def add_arg_scope(function: _Function) -> _Function:
    """Makes a function take the arguments of the arg_scopes that name it."""
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def with_arguments(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**_current.get({}).get(name, {}), **kwargs})

    with_arguments.name_in_arg_scope = name  # type: ignore[attr-defined]
    return with_arguments  # type: ignore[return-value]


@contextlib.contextmanager
def arg_scope(
    list_ops_or_scope: Iterable[Callable[..., Any]] | _Scope,
    **kwargs: Any,
) -> Iterator[_Scope]:
    """A context in which functions have these arguments, unless a call gives them itself.

    Args:
      list_ops_or_scope: functions of add_arg_scope; or a scope that an earlier arg_scope gave,
        which takes the place of the current one.
      **kwargs: the arguments.

    Raises:
      ValueError: a function is not one of add_arg_scope; a scope with further arguments.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError(f"arg_scope of a scope takes no further arguments, got {kwargs}")
        scope = dict(list_ops_or_scope)
    else:
        scope = dict(_current.get({}))
        for function in list_ops_or_scope:
            name = _name_of(function)
            scope[name] = {**scope.get(name, {}), **kwargs}
    before = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(before)


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "name_in_arg_scope", None)
    if name is None:
        raise ValueError(f"arg_scope: {function!r} is not decorated with add_arg_scope")
    return str(name)
