# SPDX-License-Identifier: Apache-2.0
"""Has TensorFlow compute the products of matrices of a launched script in bfloat16."""

from __future__ import annotations

import copy
import functools
import os
import sys
from pathlib import Path

from sok_compat.run.console import rank_of_process

_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # of x86 and of 64-bit ARM, as Linux names them
_PROCESSOR = Path("/proc/cpuinfo")
# Values of a variable of oneDNN that rule these instructions out. With AVX2 the process aborts.
_LIMIT = "ONEDNN_MAX_CPU_ISA"
_LIMITS = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI"}


def can_multiply_in_bfloat16() -> bool:
    """Whether the processor has instructions for products in bfloat16, and oneDNN may use them."""
    if os.environ.get(_LIMIT, "").upper() in _LIMITS:
        return False
    lines = _PROCESSOR.read_text().splitlines() if _PROCESSOR.exists() else []
    return any(
        _FLAGS.intersection(line.split())
        for line in lines
        if line.startswith(("flags", "Features"))
    )


def multiply_in_bfloat16() -> None:
    """Turns on TensorFlow's own rewriter for graphs that this process runs: it casts the operands
    of products of matrices to bfloat16. Variables, tables, optimizers and losses stay float32.

    A session whose configuration sets `auto_mixed_precision_onednn_bfloat16` keeps its own value.

    Raises:
      SystemExit: the processor has no such instructions, or oneDNN may not use them (status 2).
    """
    if not can_multiply_in_bfloat16():
        sys.stderr.write(
            "python -m sok_compat.run: --bfloat16 (or SOK_BFLOAT16_PRODUCTS=1) needs a processor "
            f"with one of the instruction sets {', '.join(sorted(_FLAGS))}, which {_LIMIT} (now "
            f"{os.environ.get(_LIMIT) or 'unset'}) must not rule out: products in bfloat16 would "
            "be slower than in float32, or fail. Run without it\n"
        )
        sys.exit(2)
    import tensorflow as tf

    # Also the configuration of sessions that are given none.
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
    ask_in_sessions()
    if rank_of_process() in (None, "0"):
        sys.stderr.write("sok_compat: products of matrices are computed in bfloat16\n")


def ask_in_sessions() -> None:
    """Adds the rewriter to the configurations that sessions are given."""
    from sok_compat.runtime import integrations

    integrations.apply("tf.compat.v1.Session, its configuration", _with_rewriter)


def _with_rewriter(make_session):
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    @functools.wraps(make_session)
    def made(self, target="", graph=None, config=None):
        options = getattr(config, "graph_options", None)  # TensorFlow refuses what has none
        if options and not options.rewrite_options.auto_mixed_precision_onednn_bfloat16:
            config = copy.deepcopy(config)
            rewrites = config.graph_options.rewrite_options
            rewrites.auto_mixed_precision_onednn_bfloat16 = RewriterConfig.ON
        return make_session(self, target, graph, config)

    return made
