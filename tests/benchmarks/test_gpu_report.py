# SPDX-License-Identifier: Apache-2.0
"""On a machine without a GPU the report says why each part has not run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("has_compiler, reason", [
    (False, "no nvcc on the PATH"),
    (True, "no GPU to build for: CUDA_ARCHITECTURES=90 names one"),
])  # fmt: skip
def test_without_a_gpu(has_compiler, reason, tmp_path):
    variables = {name: value for name, value in os.environ.items() if name != "CUDACXX"}
    if has_compiler:
        (tmp_path / "nvcc").touch(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.report", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        env={**variables, "PATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    report = (tmp_path / "out" / "report.md").read_text()
    results = dict(re.findall(r"^\| (.+) \| not run: (.+) \| 0.0 \|$", report, re.MULTILINE))
    assert results.pop("build") == reason
    assert {"tests/engine", "rates"} < set(results) and set(results.values()) == {"no GPU"}
    assert f"0 passed, 0 failed, {len(results) + 1} not run" in report
