# SPDX-License-Identifier: Apache-2.0
"""The part of the list of integrations.py that is on Horovod."""

import sys

from sok_compat.runtime.integration import Integration


def _horovod():
    return sys.modules["horovod.tensorflow"]  # imported by the script, or nothing to change


_HOROVOD = "Horovod 0.28.1"
ON_HOROVOD = (
    Integration(
        "hvd.init",
        "others are told that a rank ends, before the shutdown for which each init asks then",
        _HOROVOD,
        "init",
        ("args", "kwargs"),
        lambda: [(_horovod(), "init")],
    ),
    Integration(
        "hvd.DistributedOptimizer",
        "leaves the gradients of tables alone, which are sums over all ranks already",
        _HOROVOD,
        "_make_allreduce_grads_fn",
        ("name", "device_dense", "device_sparse", "compression", "sparse_as_dense", "op",
         "gradient_predivide_factor", "groups", "process_set"),
        lambda: [(_horovod(), "_make_allreduce_grads_fn")],
    ),
    Integration(
        "hvd.DistributedOptimizer.compute_gradients",
        "raises in a wrapper that was made before the change above, and would reduce tables",
        _HOROVOD,
        "_DistributedOptimizer.compute_gradients",
        ("self", "args", "kwargs"),
        lambda: [(_horovod()._DistributedOptimizer, "compute_gradients")],
    ),
    Integration(
        "hvd.broadcast_",
        "leaves out tables and their slots, of which each rank has its own rows",
        _HOROVOD,
        "broadcast_",
        ("variables", "root_rank", "name", "process_set"),
        lambda: [(_horovod(), "broadcast_"), (_horovod().functions, "broadcast_")],
    ),
    Integration(
        "hvd.broadcast_variables",
        "the same, before a table's rows of the whole capacity are read and sent",
        _HOROVOD,
        "broadcast_variables",
        ("variables", "root_rank", "process_set", "inplace"),
        lambda: [(m, "broadcast_variables") for m in (_horovod(), _horovod().functions)],
    ),
    Integration(
        "hvd._allreduce_cond",
        "raises in a wrapper that was made before the changes above, for slices that may be a "
        "table's",
        _HOROVOD,
        "_allreduce_cond",
        ("tensor", "args", "process_set", "kwargs"),
        lambda: [(_horovod(), "_allreduce_cond")],
    ),
    Integration(
        "hvd._grouped_allreduce_cond",
        "the same, where the wrapper has groups",
        _HOROVOD,
        "_grouped_allreduce_cond",
        ("tensors", "args", "process_set", "kwargs"),
        lambda: [(_horovod(), "_grouped_allreduce_cond")],
    ),
    Integration(
        "hvd.allreduce",
        "gives back a table's gradient, which is a sum over ranks already",
        _HOROVOD,
        "allreduce",
        ("tensor", "average", "device_dense", "device_sparse", "compression", "op",
         "prescale_factor", "postscale_factor", "name", "process_set", "ignore_name_scope"),
        lambda: [(_horovod(), "allreduce")],
    ),
    Integration(
        "hvd.grouped_allreduce",
        "the same, in a group",
        _HOROVOD,
        "grouped_allreduce",
        ("tensors", "average", "device_dense", "device_sparse", "compression", "op",
         "prescale_factor", "postscale_factor", "process_set", "ignore_name_scope", "name"),
        lambda: [(_horovod(), "grouped_allreduce")],
    ),
    *(
        Integration(
            f"hvd.{name}",
            "raises for a table's gradient, whose row ids are other rows on other ranks",
            _HOROVOD,
            name,
            parameters,
            lambda name=name, modules=modules: [(m(), name) for m in (_horovod, *modules)],
        )
        for name, parameters, modules in (
            ("allgather", ("tensor", "name", "ignore_name_scope", "process_set"),
             [lambda: _horovod().functions]),
            ("grouped_allgather", ("tensors", "name", "ignore_name_scope", "process_set"), []),
            ("broadcast", ("tensor", "root_rank", "name", "ignore_name_scope", "process_set"),
             [lambda: _horovod().functions]),
            ("alltoall", ("tensor", "splits", "name", "ignore_name_scope", "process_set"), []),
            ("reducescatter",
             ("tensor", "device_dense", "compression", "op", "name", "process_set",
              "ignore_name_scope", "prescale_factor", "postscale_factor"), []),
            ("grouped_reducescatter",
             ("tensors", "device_dense", "compression", "op", "process_set",
              "prescale_factor", "postscale_factor"), []),
        )
    ),
)  # fmt: skip
