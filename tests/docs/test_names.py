# SPDX-License-Identifier: Apache-2.0
"""docs/use/names.md beside the package: every claim holds, and nothing public is left out."""

import importlib
import inspect
import json
import pkgutil
import types

import pytest

import sok_compat
from docs.generators.names_page import PAGE, page
from docs.generators.names_table import BEHAVIOUR, INTERNAL_MODULES, entries
from tests.support.cases.thorough import thorough_but
from tests.support.processes.subprocess_python import run_python

THERE = [entry for entry in entries() if entry.state != "refused"]
REFUSED = [entry for entry in entries() if entry.state == "refused"]
FACE = "sok_compat.sparse_operation_kit"
ADDED = [name for entry in entries() if entry.state == "new" for name in entry.names]
API = (
    *("core", "embeddings", "kit_lib", "operations", "optimizers", "saver", "tf"),
    *("communication", "distributed_variable", "dynamic_variable", "experiment", "lookup"),
    *("optimizer", "raw_ops", "utils"),
)


def path_of(name):
    """Where the package has a name: SparseOperationKit's under FACE, by the same module paths."""
    is_of_face = name not in ADDED or name.split(".")[1] in API
    return name.replace("sok", FACE if is_of_face else "sok_compat", 1)


def by_import(name):
    """What `from package.module import name` gives, or the module of that name."""
    path = path_of(name)
    parent, _, last = path.rpartition(".")
    try:
        return getattr(importlib.import_module(parent), last)
    except AttributeError:
        return importlib.import_module(path)


SECOND_NAMES = {"incremental_dump": "incremental_model_dump"}


def ids(entry):
    return entry.names[0]


def test_page_is_what_the_table_makes():
    assert PAGE.read_text() == page(), "run python -m docs.generators.names_page"


def test_table_is_well_formed():
    names = [name for entry in entries() for name in entry.names]
    assert len(names) == len(set(names))
    for entry in entries():
        assert entry.state in ("works", "differs", "refused", "new")
        assert entry.note or entry.state == "works", entry
        assert (entry.error is not None) == (entry.state == "refused")
    assert {state for _, state, _ in BEHAVIOUR} <= {"works", "differs", "refused"}


@pytest.mark.parametrize("entry", THERE, ids=ids)
def test_paths_of_an_entry_lead_to_one_object(entry):
    found = by_import(entry.names[0])
    for name in entry.names:
        assert by_import(name) is found, name
    if isinstance(found, types.ModuleType):
        assert found.__name__ == path_of(entry.names[0])
    elif inspect.isclass(found) or inspect.isfunction(found):
        last = {name.rpartition(".")[2] for name in entry.names}
        assert {found.__name__} == {SECOND_NAMES.get(name, name) for name in last}
        assert found.__doc__
    else:
        assert isinstance(found, (str, list))  # a version


@pytest.mark.parametrize("module", thorough_but(1, ["sparse_operation_kit", "sok_compat"]))
def test_paths_are_attributes_after_the_root_import(module):
    """In a process that has imported nothing else."""
    names = [name for entry in THERE for name in entry.names]
    names.remove("sok.saver.Saver.Saver")  # sok.saver.Saver is the class; the module by import only
    if module == "sok_compat":  # whose lookup is another package
        names = [name for name in names if not name.startswith("sok.lookup")]
        names.append("sok.lookup_sparse")
    missing = run_python(
        f"""
        import json
        import {module} as sok

        def is_there(name):
            found = sok
            for part in name.split(".")[1:]:
                found = getattr(found, part, None)
            return found is not None

        print(json.dumps([name for name in {names} if not is_there(name)]))
        """,
        is_fresh=True,
    )
    assert json.loads(missing.splitlines()[-1]) == []


@pytest.mark.parametrize("entry", REFUSED, ids=ids)
def test_refused_names_raise_what_the_page_says(entry):
    (name,) = entry.names
    assert f"`{entry.error.__name__}`" in entry.note
    with pytest.raises(entry.error) as raised:
        by_import(name)()
    if entry.error is NotImplementedError:
        assert entry.note.partition(": ")[2].rstrip(".") in str(raised.value)


def public_modules():
    """{name: module} of what scripts may import."""
    packages = [importlib.import_module(f"{FACE}.{name}") for name in API]
    modules = {package.__name__: package for package in packages}
    for package in packages:
        for found in pkgutil.walk_packages(
            getattr(package, "__path__", []), f"{package.__name__}."
        ):
            modules[found.name] = importlib.import_module(found.name)
    assert set(modules) >= INTERNAL_MODULES
    return {name: module for name, module in modules.items() if name not in INTERNAL_MODULES}


def test_nothing_public_is_left_out():
    listed = {name for entry in entries() for name in entry.names}
    found = {f"sok.{name}" for name in sok_compat.__all__}
    for name, module in public_modules().items():
        path = name.replace(FACE, "sok", 1)
        found.add(path if path != "sok.saver.Saver" else "sok.saver.Saver.Saver")
        names = getattr(module, "__all__", None) or [
            attribute
            for attribute, value in vars(module).items()
            if not attribute.startswith("_") and getattr(value, "__module__", None) == name
        ]
        found |= {f"{path}.{attribute}" for attribute in names}
    assert sorted(found - listed) == []
