# SPDX-License-Identifier: Apache-2.0
"""Options of Horovod's functions, where ranks of MPI take their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Those that change nothing here, or nothing but speed.
_WITHOUT_EFFECT = (
    *("name", "use_locking", "device_dense", "device_sparse", "sparse_as_dense", "num_groups"),
    *("groups", "ignore_name_scope"),
)


class Compression:
    """Only `none` is known."""

    none = "none"


# The values of others that change nothing.
_AS_USUAL = {
    "compression": Compression.none,
    "backward_passes_per_step": 1,
    "gradient_predivide_factor": 1.0,
    "prescale_factor": 1.0,
    "postscale_factor": 1.0,
    "process_set": None,
}


def check_options(user: str, options: Mapping[str, Any]) -> None:
    """Raises NotImplementedError for options that would change the numbers.

    Args:
      user: the function, for the message.
      options: those that it was given.
    """
    for name, value in options.items():
        if name not in _WITHOUT_EFFECT and (name not in _AS_USUAL or value != _AS_USUAL[name]):
            raise NotImplementedError(
                f"{user}({name}={value!r}) needs Horovod, which is not used here; python -m "
                "sok_compat.doctor says how to install it"
            )
