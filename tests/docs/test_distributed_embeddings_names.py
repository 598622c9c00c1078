# SPDX-License-Identifier: Apache-2.0
"""docs/use/porting_distributed_embeddings.md beside the package: its names are there or not, and no
public name is missing."""

import importlib

from docs.generators.distributed_embeddings_table import BEHAVIOUR, entries
from docs.generators.names_page import EMBEDDINGS_PAGE, embeddings_page

NAMES = {name: entry for entry in entries() for name in entry.names}
STATES = ("works", "differs", "refused")


def is_there(name):
    module, _, last = f"sok_compat.{name}".rpartition(".")
    return hasattr(importlib.import_module(module), last)


def test_page_is_what_the_table_makes():
    assert EMBEDDINGS_PAGE.read_text() == embeddings_page(), (
        "run python -m docs.generators.names_page"
    )


def test_table_is_well_formed():
    assert len(NAMES) == sum(len(entry.names) for entry in entries())
    for entry in entries():
        assert entry.state in STATES
        assert entry.note or entry.state == "works", entry
        assert (entry.error is not None) == (entry.state == "refused")
    assert {state for _, state, _ in BEHAVIOUR} <= set(STATES)


def test_names_are_there_or_not_and_none_is_left_out():
    there = {name for name in NAMES if is_there(name)}
    assert there == {name for name, entry in NAMES.items() if entry.state != "refused"}
    for module in ("", ".python.layers.embedding", ".python.layers.dist_model_parallel"):
        path = f"distributed_embeddings{module}"
        public = importlib.import_module(f"sok_compat.{path}").__all__
        assert {f"{path}.{name}" for name in public} - {f"{path}.dist_model_parallel"} <= set(NAMES)
