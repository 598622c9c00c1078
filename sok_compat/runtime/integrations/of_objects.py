# SPDX-License-Identifier: Apache-2.0
"""The changes to objects that scripts make, and to the interpreter, in the list of integrations."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ChangeOfObject:
    """A change to an object that a script has created, or to the launcher's interpreter."""

    name: str
    purpose: str
    tested_on: str
    tested_by: str
    undo: str  # in words


_TENSORFLOW, _PYTHON = "TensorFlow 2.15 to 2.21", "Python 3.9 to 3.13"
CHANGES_OF_OBJECTS = tuple(
    ChangeOfObject(name, purpose, tested_on, f"tests/{tested_by}.py", undo)
    for name, purpose, tested_on, tested_by, undo in (
        (
            "tf.convert_to_tensor of tf.IndexedSlices, outside of graphs",
            "slices of tables' gradients are added up by row id, without its generation",
            _TENSORFLOW,
            "variables/test_rows_of_gradients",
            "ends with the process; slices of other variables give what they gave before",
        ),
        (
            "tf.train.SummarySaverHook._summary_writer, StepCounterHook._summary_writer",
            "another rank's hook with rank 0's folder gets a writer that writes nothing: two "
            "writers in a folder may pick the same file name",
            _TENSORFLOW,
            "distributed/checkpoints/test_saving_sessions",
            "ends with the hook; give hooks a summary_writer, or other ranks another folder",
        ),
        (
            "tf.train.Scaffold._saver, by save_incremental_checkpoint_secs of DeepRec's sessions",
            "a scaffold without a saver gets the IncrementalSaver that the argument asks for",
            _TENSORFLOW,
            "deeprec/checkpoints/test_checkpoints_of_sessions",
            "ends with the scaffold; give it a saver",
        ),
        (
            "tf.train.CheckpointManager._sweep, during save() on several ranks",
            "rank 0 alone deletes checkpoints",
            _TENSORFLOW,
            "distributed/checkpoints/test_object_checkpoints",
            "ends with the call",
        ),
        (
            "the status of tf.train.Checkpoint.restore",
            "keeps rank 0's copy of the files for variables that are made later",
            _TENSORFLOW,
            "distributed/checkpoints/test_object_checkpoints",
            "ends with the status",
        ),
        (
            "_variables, _built and jit_compile of an optimizer of tf.keras.optimizers that trains "
            "tables; _serialize_to_tensors of its slots",
            "the optimizer numbers no slot that a table saves; XLA does not know tables",
            _TENSORFLOW,
            "eager/test_checkpoints",
            "ends with the optimizer",
        ),
        (
            "_iterations of an optimizer in sok.OptimizerWrapper, during apply_gradients",
            "the wrapper counts its own steps",
            _TENSORFLOW,
            "sok2/test_optimizer_wrapper",
            "ends with the call",
        ),
        (
            "_initial_weights of layers given to DistributedEmbedding",
            "the table starts with the arrays that the layer was given",
            _TENSORFLOW,
            "distributed_embeddings/test_distributed_embedding",
            "ends with the layer",
        ),
        (
            "inputs of update ops that an OptimizerScope, or an optimizer of DeepRec's tf.train, "
            "has made for tables",
            "updates touch the rows in use, once, and count the step that they are given",
            _TENSORFLOW,
            "optimizers/test_rows_in_use",
            "ends with the graph; leave the optimizer out of the scope",
        ),
        (
            "attributes named sok_compat... of graphs, and _sok_compat... of tensors",
            "what this package knows of a graph, and which tensors are gradients of tables",
            _TENSORFLOW,
            "runtime/test_graphs",
            "end with the object",
        ),
        (
            "hvd.DistributedGradientTape.gradient, of distributed_embeddings' own tape",
            "asks for generic names, as ranks have different variables",
            "Horovod 0.28.1",
            "distributed_embeddings/test_plans_on_ranks",
            "ends with the tape",
        ),
        (
            "TensorFlow 1 behaviour and sys.meta_path, by the first name of sok_compat.deeprec",
            "tf.disable_v2_behavior(); module paths of TensorFlow 1 and DeepRec can be imported",
            _TENSORFLOW,
            "deeprec/scripts/test_module_paths",
            "tf.compat.v1.enable_v2_behavior(); "
            "sok_compat.deeprec.namespace.module_paths.remove_finder()",
        ),
        (
            "sys.meta_path, runpy.run_path and sys.excepthook, by python -m sok_compat.run",
            "in the script's modules `import tensorflow` gives sok_compat.deeprec; tracebacks "
            "begin in the script",
            _PYTHON,
            "deeprec/scripts/test_run",
            "ends with the process; sok_compat.run.script_modules.read_imports_as_written()",
        ),
        (
            "sys.meta_path, by python -m sok_compat.run where Horovod is not installed",
            "`import horovod.tensorflow` gives its most used names",
            _PYTHON,
            "distributed/mpi/test_ranks_of_mpi",
            "ends with the process; sok_compat.run.horovod_stand_in.find_as_installed()",
        ),
        (
            "sys.path, by python -m sok_compat.run",
            "scripts that ask for the version of the distribution tensorflow find 'deeprec' in it",
            _PYTHON,
            "deeprec/scripts/test_distributions",
            "ends with the process; sok_compat.run.distributions.answer_as_installed()",
        ),
        (
            "the logger tensorflow and warnings.filters, by python -m sok_compat.run",
            "a script for TensorFlow 1 calls deprecated functions: their warnings hid all others",
            _TENSORFLOW,
            "deeprec/scripts/test_console",
            "python -W default -m sok_compat.run; sok_compat.run.console.show_deprecations()",
        ),
        (
            "numpy, by python -m sok_compat.run",
            "names that NumPy 1.24 and 2.0 dropped, such as np.object, are there again",
            "NumPy 1.23 to 2.4",
            "deeprec/scripts/test_older_names",
            "ends with the process; sok_compat.run.numpy_names.take_back()",
        ),
        (
            "sys.meta_path, by the wheel's .pth file",
            "`import sparse_operation_kit` and `import distributed_embeddings` give this package, "
            "unless another built one is found",
            _PYTHON,
            "packaging/test_import_alias",
            "pip uninstall sok_compat; `import sok_compat as sok` needs none of it",
        ),
    )
)
