# SPDX-License-Identifier: Apache-2.0
"""An op's inputs by name, and gradients in the order of its inputs."""

from __future__ import annotations

import types
from typing import Any

from sok_compat.runtime.tf_versions import op_def_registry


def arguments_of(op: Any) -> Any:
    """An object with the inputs of an op, or of its counterpart on an eager tape, as attributes,
    each a tensor or a list of tensors."""
    arguments, begin, inputs = types.SimpleNamespace(), 0, list(op.inputs)
    for name, size in _sizes(op):
        count = 1 if size is None else size
        given = inputs[begin : begin + count]
        setattr(arguments, name, given[0] if size is None else given)
        begin += count
    return arguments


def gradients_of(op: Any, **of_inputs: Any) -> list[Any]:
    """A gradient, or None, for each input of an op; `of_inputs` are lists of gradients, by input.

    Raises:
      ValueError: the op has no input of such a name.
    """
    gradients = []
    for name, size in _sizes(op):
        gradients += of_inputs.pop(name, [None] * (1 if size is None else size))
    if of_inputs:
        raise ValueError(f"{op.type} has no inputs {', '.join(of_inputs)}")
    return gradients


def _sizes(op):
    """Yields (name, number of tensors, or None unless it is a list) for each input."""
    for argument in op_def_registry.get(op.type).input_arg:
        if argument.number_attr:
            yield argument.name, op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            yield argument.name, len(op.get_attr(argument.type_list_attr))
        else:
            yield argument.name, None
