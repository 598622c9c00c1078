# SPDX-License-Identifier: Apache-2.0
"""The integrations with Horovod; importing this adds them to the list in runtime/integrations."""

import sys

from sok_compat.runtime import integrations
from sok_compat.runtime.integrations.integration import Integration

_COMMON = ("ignore_name_scope", "process_set_id", "name")
_REDUCTION = ("reduce_op", "prescale_factor", "postscale_factor", *_COMMON)
# {op of Horovod's library: its parameters}: every collective on tensors goes through one of these.
COLLECTIVES = {
    "horovod_allgather": ("tensor", *_COMMON),
    "horovod_allreduce": ("tensor", *_REDUCTION),
    "horovod_alltoall": ("tensor", "splits", *_COMMON),
    "horovod_broadcast": ("tensor", "root_rank", *_COMMON),
    "horovod_broadcast_inplace_resource": (
        "resources", "root_rank", "variable_names", "process_set_id", "name",
    ),
    "horovod_grouped_allgather": ("tensors", *_COMMON),
    "horovod_grouped_allreduce": ("tensors", *_REDUCTION),
    "horovod_grouped_reducescatter": ("tensors", *_REDUCTION),
    "horovod_reducescatter": ("tensor", *_REDUCTION),
}  # fmt: skip


def _horovod():
    """The module; the script has imported it if there is anything to change."""
    return sys.modules["horovod.tensorflow"]


def _integration(name, purpose, tested_by, attribute, parameters, places=None, **others):
    return Integration(
        name=f"hvd.{name}",
        purpose=purpose,
        tested_on="Horovod 0.28.1",
        tested_by=f"tests/distributed/{tested_by}.py",
        parameters=parameters,
        places=places or (lambda: [(_horovod(), attribute)]),
        **{"qualname": attribute, **others},
    )


ON_HOROVOD = (
    _integration(
        "DistributedOptimizer",
        "leaves out the gradients of tables, which are already sums over all ranks",
        "horovod/test_horovod_helpers",
        "_make_allreduce_grads_fn",
        ("name", "device_dense", "device_sparse", "compression", "sparse_as_dense", "op",
         "gradient_predivide_factor", "groups", "process_set"),
    ),
    _integration(
        "DistributedOptimizer.compute_gradients",
        "the same for a wrapper that was created before the change above, and sums of backward "
        "passes",
        "horovod/test_horovod_helpers",
        "compute_gradients",
        ("self", "args", "kwargs"),
        lambda: [(_horovod()._DistributedOptimizer, "compute_gradients")],
        qualname="_DistributedOptimizer.compute_gradients",
    ),
    _integration(
        "broadcast_variables",
        "leaves out tables and their slots, of which each rank has its own rows, before it reads "
        "them; also where a script has imported the function before",
        "horovod/test_horovod_helpers",
        "_make_broadcast_group_fn",
        ("args",),
        lambda: [(_horovod().functions, "_make_broadcast_group_fn")],
        qualname="_cache.<locals>.wrapper",
    ),
    _integration(
        "broadcast_variables, in place",
        "the same with inplace=True",
        "horovod/test_horovod_helpers",
        "_make_inplace_broadcast_group_fn",
        ("args",),
        lambda: [(_horovod().functions, "_make_inplace_broadcast_group_fn")],
        qualname="_cache.<locals>.wrapper",
    ),
    _integration(
        "allreduce",
        "returns a table's gradient, which is already a sum over ranks",
        "horovod/test_collectives",
        "allreduce",
        ("tensor", "average", "device_dense", "device_sparse", "compression", "op",
         "prescale_factor", "postscale_factor", "name", "process_set", "ignore_name_scope"),
    ),
    _integration(
        "grouped_allreduce",
        "the same for a group",
        "horovod/test_collectives",
        "grouped_allreduce",
        ("tensors", "average", "device_dense", "device_sparse", "compression", "op",
         "prescale_factor", "postscale_factor", "process_set", "ignore_name_scope", "name"),
    ),
    _integration(
        "mpi_ops.MPI_LIB, whose ops all collectives are",
        "raises for a table's gradient, whose row ids mean different rows on each rank; gives "
        "collectives exact gradients where ranks train as one (DeepRec's collective strategy)",
        "horovod/test_collectives",
        "MPI_LIB",
        (),
        lambda: [(_horovod().mpi_ops, "MPI_LIB")],
        overridden=COLLECTIVES,
    ),
)  # fmt: skip
integrations.add(ON_HOROVOD)
