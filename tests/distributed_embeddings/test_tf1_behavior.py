# SPDX-License-Identifier: Apache-2.0
"""The tests of layers and lookups once more, in a process that begins with disable_v2_behavior."""

from pathlib import Path

import pytest

from tests.support.behaviors import IS_TF1, TF1_VARIABLE
from tests.support.processes.subprocess_python import run_python

FILES = (
    *("test_distributed_embedding.py", "test_embedding_lookup.py", "test_integer_lookup.py"),
    "test_saved_layers.py",
    "test_three_systems.py",
)


@pytest.mark.thorough
@pytest.mark.skipif(IS_TF1, reason="this is that process")
def test_layers_and_lookups_in_the_behavior_of_tensorflow_1():
    files = [str(Path(__file__).with_name(name)) for name in FILES]
    run_python(f"""
        import os, sys
        os.environ[{TF1_VARIABLE!r}] = "1"
        import pytest
        os.dup2(2, 1)  # what fails is shown
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *{files}]))
    """)
