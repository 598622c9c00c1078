# SPDX-License-Identifier: Apache-2.0
"""The lint step for layers finds what is out of the picture, and nothing else."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "layers.py"


@pytest.fixture(scope="module")
def layers():
    spec = importlib.util.spec_from_file_location("layers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORBIDDEN_IMPORTS = [
    ("tables/table.py", "from sok_compat.lookup.keys import checked_keys"),
    ("tables/table.py", "import sok_compat.checkpoint.tf_saver as saver"),
    ("ranks/identity.py", "def f():\n    from sok_compat.tables.table import Table"),
    ("training/x.py", "from sok_compat.lookup import lookup"),
    ("lookup/x.py", "from sok_compat import checkpoint"),
    ("lookup/x.py", "from .. import checkpoint"),
    ("lookup/x.py", "from ..checkpoint import tf_saver"),
    ("checkpoint/x.py", "from sok_compat.sparse_operation_kit.core import EmbeddingVariable"),
    ("checkpoint/x.py", "import sparse_operation_kit as sok"),
    ("checkpoint/x.py", "import sok_compat as sok"),
    ("checkpoint/x.py", "from sok_compat import Init"),
    ("deeprec/x.py", "from sok_compat.sparse_operation_kit import core"),
    ("deeprec/x.py", "import distributed_embeddings"),
    ("distributed_embeddings/x.py", "from sok_compat.deeprec import options"),
    ("engine/x.py", "from sok_compat.runtime import ranks"),
    ("run/x.py", "from sok_compat import deeprec"),
    ("runtime/x.py", "from sok_compat.ranks import identity"),
    ("checkpoint/files/x.py", "from sok_compat.checkpoint.streams import streamed_save"),
    ("checkpoint/parts/x.py", "from sok_compat.checkpoint.saver.tf_saver import save"),
    ("checkpoint/objects/x.py", "from sok_compat.checkpoint.loading.warm_start import assign_from"),
    ("ranks/job.py", "if TYPE_CHECKING:\n    from sok_compat.ranks.mpi.job import MpiJob"),
    ("training/stock_rules.py", "from sok_compat.training import fused_adam"),
    ("sparse_operation_kit/lookup.py", "from sok_compat.sparse_operation_kit import experiment"),
]
NAMES_OF_RANKS = [
    ("horovod", "import horovod.tensorflow as hvd"),
    ("horovod", "from horovod import tensorflow"),
    ("horovod", 'importlib.import_module("horovod.tensorflow")'),
    ("horovod", 'sys.modules.get("horovod")'),
    ("mpi", "from mpi4py import MPI"),
]
ALLOWED_IMPORTS = [
    ("ranks/horovod/x.py", 'horovod = sys.modules["horovod.tensorflow"]'),
    ("tables/words.py", 'message = "horovod runs -np 2"'),
    ("checkpoint/saver/x.py", "from sok_compat.checkpoint.streams.progress import told"),
    ("sparse_operation_kit/core/x.py", "from sok_compat.training.update_scope import UpdateScope"),
    ("sparse_operation_kit/core/x.py", "from sok_compat.sparse_operation_kit.core import y"),
    ("lookup/x.py", "from sok_compat.tables import Table\nfrom . import keys\nimport tensorflow"),
    ("__init__.py", "from sok_compat import sparse_operation_kit"),
    ("doctor.py", "def f():\n    from sok_compat.runtime import _build_info"),
]
FORBIDDEN_INCLUDES = [
    ("base/x.h", '#include "ops/engine/table.h"'),
    ("engine/x.h", "#  include <ops/cpu/table.h>"),
    ("cpu/x.cc", '#include "ops/device/queue.h"'),
    ("cpu/x.cc", '#include "ops/table/table.h"'),
    ("device/x.h", '#include "ops/cuda/queue.cuh"'),
    ("exchange/x.cc", '#include "ops/tf/base/border.h"'),
    ("engine/x.h", '#include "tensorflow/core/framework/op.h"'),
    ("device/x.h", "#include <cuda_runtime.h>"),
    ("tf/base/x.cc", "#include <nanobind/nanobind.h>"),
    ("tf/tables/contents/x.cc", '#include "ops/tf/ranks/exchange_service.h"'),
    ("tf/checkpoint/save/x.cc", '#include "ops/tf/checkpoint/restore/rows_op.h"'),
    ("exchange/protocol/x.h", '#include "ops/exchange/rendezvous/coordinator.h"'),
    ("base/x.cc", '#include "ops/base/threads/executor.h"'),
    ("cpu/rows/x.cc", '#include "ops/cpu/index/hash_table.h"'),
    ("history/x.cc", '#include "ops/cpu/index/hash_table.h"'),
    ("cpu/index/x.cc", '#include "ops/cpu/cpu_plane.h"'),
    ("device/memory/x.h", '#include "ops/device/kernels/merging.h"'),
]
ALLOWED_INCLUDES = [
    ("tf/lookup/x.cc", '#include "ops/tf/tables/resource/table_resource.h"'),
    ("tf/base/x.cc", '#include "ops/engine/table.h"\n#include "tensorflow/core/framework/op.h"'),
    ("cuda/x.cu", '#include "ops/device/queue.h"\n#include <cuda_runtime.h>\n#include <vector>'),
    ("cpu/x.cc", '#include "ops/cpu/x.h"\n// #include "ops/tf/base/border.h"'),
    ("tests/x_test.cc", '#include "ops/tf/base/border.h"'),
    ("base/threads/x.cc", '#include "ops/base/error.h"'),
    ("cpu/x.cc", '#include "ops/cpu/index/hash_table.h"'),
    ("device/x.h", '#include "ops/device/memory/scratch.h"'),
]


@pytest.mark.parametrize("path, text", FORBIDDEN_IMPORTS)
def test_a_forbidden_import_is_reported(layers, path, text):
    (problem,) = layers.python_problems(Path("sok_compat", path), text)
    folder = Path("sok_compat", path).parent
    assert problem.startswith(f"sok_compat/{path}:") and f"{folder} may not import" in problem


@pytest.mark.parametrize("folder, text", NAMES_OF_RANKS)
def test_only_one_folder_names_what_connects_ranks(layers, folder, text):
    (problem,) = layers.python_problems(Path("sok_compat/tables/words.py"), text)
    assert f"only sok_compat/ranks/{folder} knows" in problem


@pytest.mark.parametrize("path, text", ALLOWED_IMPORTS)
def test_an_allowed_import_is_not(layers, path, text):
    assert list(layers.python_problems(Path("sok_compat", path), text)) == []


@pytest.mark.parametrize("path, text", FORBIDDEN_INCLUDES)
def test_a_forbidden_include_is_reported(layers, path, text):
    (problem,) = layers.cxx_problems(Path("ops", path), text)
    assert problem.startswith(f"ops/{path}:1: {Path('ops', path).parent} may not include")


@pytest.mark.parametrize("path, text", ALLOWED_INCLUDES)
def test_an_allowed_include_is_not(layers, path, text):
    assert list(layers.cxx_problems(Path("ops", path), text)) == []


@pytest.mark.parametrize("path", ["sok_compat/attic/x.py", "sok_compat/ranks/attic.py"])
def test_an_unknown_room_is_asked_about(layers, path):
    with pytest.raises(SystemExit, match=f"does not know {path[:16]}"):
        list(layers.python_problems(Path(path), "import sok_compat.ranks.job"))


def test_files_that_import_each_other_are_reported(layers):
    job, mpi = Path("sok_compat/ranks/job.py"), Path("sok_compat/ranks/mpi/job.py")
    below = layers.imports_of(job, "def f():\n    from sok_compat.ranks.mpi import job")
    assert below == {mpi} and list(layers.circle({job: below})) == []
    (problem,) = layers.circle({job: below, mpi: {job}})
    assert problem.count("sok_compat/ranks/job.py") + problem.count(str(mpi)) == 3


def test_the_documents_draw_the_rooms_as_they_are(layers):
    text = (ROOT / "docs" / "understand" / "architecture.md").read_text(encoding="utf-8")
    for room, rows in layers.WITHIN.items():
        if room.startswith("sok_compat/"):
            (line,) = re.findall(rf"^{room.partition('/')[2]} +(.* < .*)$", text, re.MULTILINE)
            drawn = [{*row.strip("{}").split(", ")} for row in line.split(" < ")]
            assert drawn == [{*row} - {"_build_info"} for row in rows], room


@pytest.mark.parametrize("path, is_right", [
    ("sok_compat/lookup/bags.py", False),
    ("ops/engine/table_options.cc", False),
    ("ops/tests/core/a_test.cc", True),
    ("sok_compat/sparse_operation_kit/lookup.py", True),
])  # fmt: skip
def test_words_of_faces_stay_in_faces(layers, path, is_right):
    text = "rows of a sample\nmust be a multiple of slot_num"
    assert bool(list(layers.face_words(Path(path), text))) != is_right
