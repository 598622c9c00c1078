# SPDX-License-Identifier: Apache-2.0
"""docs/use/porting_deeprec.md beside the package: its names are there or not, none is missing."""

import json

from docs.generators.deeprec_table import BEHAVIOUR, entries
from docs.generators.names_page import DEEPREC_PAGE, deeprec_page
from sok_compat.runtime.tf_versions import VERSION
from tests.support.processes.subprocess_python import run_python

NAMES = {name: entry for entry in entries() for name in entry.names}
ENDED = {name for name in NAMES if name.startswith("tf.estimator.")}  # by TensorFlow 2.16
IN_TF = {name for name in NAMES if name.startswith("tf.")}


def test_page_is_what_the_table_makes():
    assert DEEPREC_PAGE.read_text() == deeprec_page(), "run python -m docs.generators.names_page"


def test_table_is_well_formed():
    assert len(NAMES) == sum(len(entry.names) for entry in entries())
    for entry in entries():
        assert entry.state in ("works", "differs", "refused", "new")
        assert entry.note or entry.state == "works", entry
        assert (entry.error is not None) == (entry.state == "refused")
    assert {state for _, state, _ in BEHAVIOUR} <= {"works", "differs", "refused"}


def test_names_are_there_or_not_and_none_is_left_out():
    script = f"""
        import functools, importlib, json
        import sok_compat.deeprec as tf
        from sok_compat.deeprec.namespace.names import HOMES

        def is_there(name):
            try:
                if name.startswith("tf."):
                    functools.reduce(getattr, name.split(".")[1:], tf)
                else:
                    module, _, last = name.rpartition(".")
                    getattr(importlib.import_module(module), last)
                return True
            except (AttributeError, ImportError):
                return False

        own = ["tf." + name for name in HOMES]
        print(json.dumps([own, [name for name in {list(NAMES)} if is_there(name)]]))
    """
    own, there = json.loads(run_python(script).splitlines()[-1])
    expected = {name for name, entry in NAMES.items() if entry.state != "refused"}
    assert set(there) == (expected - ENDED if VERSION >= (2, 16) else expected)
    assert set(own) <= IN_TF
