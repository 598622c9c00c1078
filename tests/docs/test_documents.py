# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs, and what they name exists."""

import os
import re
import subprocess
import sys
import textwrap

import pytest
import tensorflow as tf
from documents import (
    DOCUMENTS,
    ROOT,
    after_diff,
    anchors,
    before_diff,
    blocks,
    code_words,
    links,
    python_blocks,
    table_rows,
)

from sok_compat.runtime.tf_versions import VERSION
from tests.support.processes.subprocess_python import run_python

README = ROOT / "README.md"
PORTING = ROOT / "docs" / "use" / "porting_sok.md"
CUDA = ROOT / "docs" / "understand" / "cuda.md"
SERVING = ROOT / "docs" / "use" / "serving.md"
FOLLOWING = ROOT / "docs" / "use" / "from_training_to_serving.md"
QUICK_STARTS = ROOT / "docs" / "use" / "quick_start.md"
QUICK_START, KERAS, DEEPREC, EMBEDDINGS, SUMMARIES, HASH_TABLE = python_blocks(QUICK_STARTS)
LAUNCHER = """
import runpy, sys
sys.argv[1:] = ["train.py"]
runpy.run_module("sok_compat.run", run_name="__main__", alter_sys=True)
"""
KERAS_2 = {"TF_USE_LEGACY_KERAS": "1"} if VERSION >= (2, 16) else {}  # as install.md says
TIMEOUT_SECONDS = 300  # a loaded machine may take long to import TensorFlow


def run(script, folder, is_fresh=False):
    """What a Python program prints; it runs in `folder`, with TensorFlow imported unless it is to
    start anew."""
    if not (is_fresh or KERAS_2):
        return run_python(f"import os\nos.chdir({str(folder)!r})\n{script}")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **KERAS_2},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["sok_compat", "sparse_operation_kit"])
def test_quick_start(module, tmp_path):
    script = QUICK_START.replace("import sok_compat as sok", f"import {module} as sok")
    assert f"import {module} as sok" in script
    losses = re.findall(r"^step \d+: loss (\d\.\d+)$", run(script, tmp_path), re.MULTILINE)
    assert len(losses) == 5
    assert float(losses[0]) == pytest.approx(0.69, abs=0.05)
    assert float(losses[-1]) < 0.1
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    stem = "EmbeddingVariable"
    assert names == [f"{stem}.dump", f"{stem}_keys.file", f"{stem}_values.file"]


def launch(script, folder):
    """What it prints where `python -m sok_compat.run` runs it."""
    (folder / "train.py").write_text(script)
    return run(LAUNCHER, folder)


def test_quick_start_with_keras(tmp_path):
    losses = re.findall(r"loss: (\d\.\d+)\s*$", run(KERAS, tmp_path), re.MULTILINE)
    assert float(losses[0]) < 0.69 and float(losses[-1]) < 0.3


def check_steps(printed, num_lines):
    """The losses of a script that learns."""
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\d+\.\d+)$", printed, re.M)]
    assert len(losses) == num_lines
    assert losses[-1] < 0.8 * losses[0]


def test_readme(tmp_path):
    (script,) = python_blocks(README)
    check_steps(run(script, tmp_path), num_lines=3)


def test_quick_start_of_deeprec(tmp_path):
    """Twice: the second run goes on from the checkpoint of the first."""
    check_steps(launch(DEEPREC, tmp_path), num_lines=3)
    assert "step 151: loss " in launch(DEEPREC, tmp_path)


def test_quick_start_of_distributed_embeddings(tmp_path):
    losses = re.findall(r"loss: (\d\.\d+)\s*$", run(EMBEDDINGS, tmp_path), re.MULTILINE)
    assert len(losses) == 3
    assert float(losses[-1]) < 0.8 * float(losses[0])


def test_hash_table(tmp_path):
    script = f"{HASH_TABLE}\nimport sys; print(row_ids.tolist(), rows[0, 0] > 1.9, len(table))"
    script += "; print('tensorflow' in sys.modules)"
    lines = run(script, tmp_path, is_fresh=True).splitlines()
    assert lines[0].startswith(f"3 [{7:19d} {-1:19d} {2**62:19d}] (2, 4) ")
    assert lines[1:] == ["[0, 1, 2, 0] True 2", "False"]


def with_start(script, start):
    """The ported script, which then begins with the numbers that `start` gives it."""
    initialize = "    session.run(init)\n"
    assert initialize in script
    return script.replace(initialize, initialize + textwrap.indent(start, "    "))


@pytest.fixture(scope="module")
def ported(tmp_path_factory):
    """The output of the scripts of porting_sok.md: ported script, plain one, comparison."""
    batches, _, start, record, plain, compare = python_blocks(PORTING)
    (diff,) = blocks(PORTING, "diff")
    port = with_start(after_diff(diff), start) + record
    folder = tmp_path_factory.mktemp("porting")
    (folder / "batches.py").write_text(batches)
    for name, script in (("port", port), ("plain", plain), ("compare", compare)):
        (folder / f"{name}.py").write_text(script)
    return run(
        """
import runpy, sys
import tensorflow as tf
sys.path.insert(0, "")
for name in ("port", "plain", "compare"):
    with tf.Graph().as_default():
        runpy.run_path(f"{name}.py")
""",
        folder,
    )


def test_ported_script_learns(ported):
    first, last = re.search(r"^loss (\S+) to (\S+)$", ported, re.MULTILINE).groups()
    assert float(last) < 0.95 * float(first)


def test_port_trains_as_plain_tensorflow(ported):
    differences = re.findall(r"^(?:losses|rows) differ by at most (\S+)$", ported, re.MULTILINE)
    assert len(differences) == 2
    assert all(float(difference) < 1e-5 for difference in differences)  # as the page says


def test_script_before_porting_is_launched_as_it_is(ported, tmp_path):
    """From the same numbers to the same losses."""
    batches, _, start, *_ = python_blocks(PORTING)
    (diff,) = blocks(PORTING, "diff")
    (tmp_path / "batches.py").write_text(batches)
    printed = launch(with_start(before_diff(diff), start), tmp_path)
    losses, expected = (re.search(r"^loss (\S+) to (\S+)$", p, re.M) for p in (printed, ported))
    assert list(map(float, losses.groups())) == pytest.approx(
        list(map(float, expected.groups())), rel=1e-4
    )


def test_script_before_porting_differs_in_tensorflow_only():
    """The lines that are taken out and put in, and no others."""
    (diff,) = blocks(PORTING, "diff")
    changed = [line for line in diff.splitlines() if line[:1] in "-+"]
    assert changed == [
        "-import tensorflow as tf",
        "+import tensorflow.compat.v1 as tf",
        "+tf.disable_v2_behavior()",
    ]


def test_script_for_sparse_operation_kit_2(tmp_path):
    run(python_blocks(PORTING)[1], tmp_path)


def test_a_layer_on_a_gpu(sok):
    (block,) = python_blocks(CUDA)
    names = {"sok": sok, "tf": tf}
    exec(block, names)
    bags = tf.sparse.from_dense(tf.ones([26, 4], tf.int64))
    output, init = names["layer"](bags), tf.compat.v1.global_variables_initializer()
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    with tf.compat.v1.Session(config=config) as session:
        session.run(init)
        assert session.run(output).shape == (1, 26, 64)


def test_summaries_are_written(tmp_path):
    run(SUMMARIES, tmp_path)
    assert next((tmp_path / "events").iterdir()).stat().st_size > 500


def test_what_is_exported_is_served(tmp_path):
    exported, served = (run(block, tmp_path).splitlines()[-1] for block in python_blocks(SERVING))
    assert exported == served


def test_what_is_trained_is_followed(tmp_path):
    version, *scores = run("".join(python_blocks(FOLLOWING)), tmp_path).splitlines()[-1].split()
    assert version == "model-5"
    assert 0 < float("".join(scores).strip("[]")) < 1.1


def test_all_blocks_are_run():
    run = {README: 1, QUICK_STARTS: 6, PORTING: 6, CUDA: 1, SERVING: 2, FOLLOWING: 2}
    assert {path: len(python_blocks(path)) for path in DOCUMENTS if python_blocks(path)} == run


def test_folders_exist():
    rows = table_rows(ROOT / "CONTRIBUTING.md", "folder")
    assert len(rows) > 5
    for folder, what in rows:
        (folder,) = code_words(folder)
        assert (ROOT / folder).is_dir()
        for part in code_words(what):
            if part.endswith("/"):
                assert (ROOT / folder / part).is_dir(), f"{folder}{part}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path):
    for link in links(path):
        target, _, anchor = link.partition("#")
        target = path.parent / target if target else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
