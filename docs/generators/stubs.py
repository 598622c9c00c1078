# SPDX-License-Identifier: Apache-2.0
"""Writes the types of modules whose names are loaded when they are used:
`python -m docs.generators.stubs`. Type checkers and editors read `__init__.pyi` in their place.
"""

from __future__ import annotations

import collections
import importlib
import pathlib
from collections.abc import Iterable

from sok_compat.deeprec.namespace.names import HOMES

ROOT = pathlib.Path(__file__).parents[2]
_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Made by `python -m docs.generators.stubs` from tables of names.

"""
_REGISTER_OPS = "\ndef register_ops() -> None: ...\n"
_REST_OF_TENSORFLOW = """
from typing import Any

def __getattr__(name: str) -> Any: ...  # the names of tf.compat.v1
"""


def stubs() -> dict[pathlib.Path, str]:
    """{path of a stub: its text}."""
    sok = importlib.import_module("sok_compat")
    kit = importlib.import_module("sok_compat.sparse_operation_kit")
    embeddings = importlib.import_module("sok_compat.distributed_embeddings")
    checkpoint = importlib.import_module("sok_compat.checkpoint")
    layers = f"{embeddings.__name__}.python.layers.dist_model_parallel"
    files = {name: f"{checkpoint.__name__}.{home}" for name, home in checkpoint._MODULES.items()}
    deeprec = {path: home for path, (home, name) in HOMES.items() if path == name}
    return {
        _path("sok_compat"): _stub({name: kit.__name__ for name in sok.__all__}),
        _path(kit.__name__): _stub(kit._HOMES, kit._PACKAGES.values()) + _REGISTER_OPS,
        _path(embeddings.__name__): _stub(embeddings._HOMES, [layers]) + _REGISTER_OPS,
        _path(checkpoint.__name__): _stub(files),
        _path("sok_compat.deeprec"): _stub(deeprec) + _REST_OF_TENSORFLOW,
    }


def _path(package: str) -> pathlib.Path:
    return ROOT.joinpath(*package.split("."), "__init__.pyi")


def _stub(homes: dict[str, str], modules: Iterable[str] = ()) -> str:
    """The text for {name: module that defines it} and for names that are modules."""
    names = collections.defaultdict(list)
    for home, name in (*((home, name) for name, home in homes.items()), *map(_split, modules)):
        names[home].append(name)
    imports = [
        f"from {home} import (\n{_lines('{0} as {0}', found)})\n"
        for home, found in sorted(names.items())
    ]
    listed = _lines('"{0}"', sum(names.values(), []))
    return "".join([_HEAD, *imports, f"\n__all__ = [\n{listed}]\n"])


def _lines(form: str, names: list[str]) -> str:
    return "".join(f"    {form.format(name)},\n" for name in sorted(names))


def _split(module: str) -> tuple[str, str]:
    package, _, name = module.rpartition(".")
    return package, name


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
