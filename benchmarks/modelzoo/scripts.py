# SPDX-License-Identifier: Apache-2.0
"""Finds training scripts in a folder: their flags and data format, read from the source alone."""

import ast
import dataclasses
import os
from pathlib import Path
from typing import Optional

# A text in the source that tells the format, the most telling one first.
_FORMATS = (
    ("taobao_train_data", "taobao"),
    ("local_train_splitByUser", "books"),
    ("category.bin", "criteo_binary"),
    ("train.csv", "criteo"),
    ("train.parquet", "criteo"),
)
_COLLECTIVE_MODULE = "tensorflow.python.distribute.group_embedding_collective_strategy"


@dataclasses.dataclass(frozen=True)
class Flag:
    """A command-line option of a script."""

    name: str  # without dashes
    default: object = None
    choices: tuple = ()
    is_switch: bool = False  # takes no value
    is_boolean: bool = False  # takes true or false
    is_required: bool = False

    def arguments(self, value):
        """[str] of a command line."""
        if self.is_switch:
            return [f"--{self.name}"]
        value = "true" if self.is_boolean and isinstance(value, int) else value
        return [f"--{self.name}", *str(value).split()]


@dataclasses.dataclass(frozen=True)
class Script:
    """A training script."""

    path: str
    model: str  # its folder, below the folder of scripts
    data_format: str  # a key of data.WRITERS
    flags: dict[str, Flag]
    batch_size: Optional[int] = None  # where no flag says one
    has_collective_strategy: bool = False


def find_scripts(folder):
    """[Script] below the folder, by model: files train*.py that parse flags and name data files.

    Raises:
      NotADirectoryError: there is no such folder.
    """
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"--scripts must be a folder, and {folder!r} is none")
    paths = sorted(Path(folder).rglob("train*.py"))
    found = (read_script(path, path.parent.relative_to(folder).as_posix()) for path in paths)
    return [script for script in found if script is not None]


def read_script(path, model):
    """The Script in a file; None where it has no flags or no known data format. One that Python
    cannot parse has no flags."""
    source = Path(path).read_text(encoding="utf-8")
    try:
        tree = ast.parse(source, str(path))
    except SyntaxError:
        data_format = _format_in([source])
        return data_format and Script(os.path.abspath(path), model, data_format, {})
    flags = {flag.name: flag for flag in map(_flag_of, _calls(tree, "add_argument")) if flag}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    data_format = _format_in(texts)
    if data_format is None or not {"steps", "train_file_pattern"} & set(flags):
        return None
    if data_format == "criteo" and _reads_int64(tree):
        data_format = "criteo_int64"
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return Script(
        path=os.path.abspath(path),
        model=model,
        data_format=data_format,
        flags=flags,
        batch_size=_default_batch_size(tree),
        has_collective_strategy=_COLLECTIVE_MODULE in modules,
    )


def _format_in(texts):
    formats = [name for part, name in _FORMATS if any(part in text for text in texts)]
    return formats[0] if formats else None


def _calls(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == name:
            yield node


def _flag_of(call):
    """A Flag; None where its name is not written as --name."""
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    names = [name[2:] for name in names if str(name).startswith("--")]
    if not names:
        return None
    options = {keyword.arg: _constant(keyword.value) for keyword in call.keywords}
    types = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
    return Flag(
        name=names[0],
        default=options.get("default"),
        choices=tuple(options.get("choices") or ()),
        is_switch=options.get("action") in ("store_true", "store_false"),
        is_boolean=any("bool" in getattr(each, "id", "") for each in types),
        is_required=bool(options.get("required")),
    )


def _constant(node):
    """The value of an expression; None where only running it would tell."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _reads_int64(tree):
    """Whether a default of a csv column is an int64: a call constant(0, dtype=tf.int64)."""
    return any(
        getattr(keyword.value, "attr", None) == "int64"
        for call in _calls(tree, "constant")
        for keyword in call.keywords
        if keyword.arg == "dtype"
    )


def _default_batch_size(tree):
    """The default of an argument batch_size of a function; None if there is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            with_default = names[len(names) - len(node.args.defaults) :]
            defaults = dict(zip(with_default, map(_constant, node.args.defaults)))
            if isinstance(defaults.get("batch_size"), int):
                return defaults["batch_size"]
    return None
