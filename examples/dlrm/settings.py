# SPDX-License-Identifier: Apache-2.0
"""The options of a model with their defaults and their command line arguments. No TensorFlow."""

import dataclasses
import math

BACKENDS = ("sok", "plain")
LAYERS = ("all2all", "distributed")
MAX_TABLE_FLOATS = 1 << 45
OPTIMIZERS = ("sgd", "adagrad", "adam", "lazyadam")


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """What is trained and how; nothing about files."""

    backend: str = "sok"  # of BACKENDS
    layer: str = "all2all"  # of LAYERS; only the sok backend has layers
    rows: int = 1 << 22  # capacity of the table, on each rank
    dim: int = 16  # of a row, and of the bottom MLP's output
    bottom_widths: tuple = (64,)  # hidden layers, before the one of width dim
    top_widths: tuple = (64, 32)  # hidden layers, before the logit
    optimizer: str = "adagrad"  # of OPTIMIZERS; for the embedding
    learning_rate: float = 0.05  # of that optimizer
    dense_learning_rate: float = 0.001  # of the MLPs' Adam
    global_batch_size: int = 2048  # samples over all ranks
    seed: int = 1

    def __post_init__(self):
        for name, allowed in (("backend", BACKENDS), ("layer", LAYERS), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}")
        for name in ("rows", "dim", "global_batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "dense_learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed must fit in 64 bits, got {self.seed}")
        if self.rows * self.dim >= MAX_TABLE_FLOATS:
            raise ValueError(
                f"rows * dim must be below 2^45, the floats that a process can address, got "
                f"{self.rows} * {self.dim}"
            )
        if min((*self.bottom_widths, *self.top_widths), default=1) < 1:
            raise ValueError(
                "hidden layers must be at least 1 wide, got "
                f"{self.bottom_widths} and {self.top_widths}"
            )
        if self.backend == "plain" and self.optimizer == "lazyadam":
            raise ValueError(
                "lazyadam comes with sok_compat; with backend 'plain' use one of "
                f"{[name for name in OPTIMIZERS if name != 'lazyadam']}"
            )


_DEFAULTS = ModelOptions()
_ARGUMENTS = {  # of each field
    "backend": "--backend",
    "layer": "--layer",
    "rows": "--rows",
    "dim": "--dim",
    "bottom_widths": "--bottom",
    "top_widths": "--top",
    "optimizer": "--optimizer",
    "learning_rate": "--learning-rate",
    "dense_learning_rate": "--dense-learning-rate",
    "global_batch_size": "--batch-size",
    "seed": "--seed",
}


def add_model_arguments(parser, without=()):
    """Adds one argument for each field of ModelOptions, but for those `without`."""

    def add(field, text, **kwargs):
        if _ARGUMENTS[field] in without:
            return
        parser.add_argument(
            _ARGUMENTS[field],
            dest=field,
            default=getattr(_DEFAULTS, field),
            help=f"{text} (default: %(default)s)",
            **kwargs,
        )

    add("backend", "what holds the embedding", choices=BACKENDS)
    add("layer", "which SOK layer looks it up", choices=LAYERS)
    add("rows", "capacity of the embedding table, on each rank", type=int)
    add("dim", "length of an embedding vector", type=int)
    add("bottom_widths", "hidden layers of the bottom MLP", type=int, nargs="*")
    add("top_widths", "hidden layers of the top MLP", type=int, nargs="*")
    add("optimizer", "optimizer of the embedding", choices=OPTIMIZERS)
    add("learning_rate", "of that optimizer", type=float)
    add("dense_learning_rate", "of the MLPs' Adam", type=float)
    add("global_batch_size", "samples in a step, over all ranks", type=int)
    add("seed", "of all initial values", type=int)


def model_options(arguments, **replaced):
    """ModelOptions from parsed arguments; ValueError where they make no sense together."""
    values = {**vars(arguments), **replaced}
    values = {field.name: values[field.name] for field in dataclasses.fields(ModelOptions)}
    values["bottom_widths"] = tuple(values["bottom_widths"])
    values["top_widths"] = tuple(values["top_widths"])
    return ModelOptions(**values)


def command_line(options):
    """The arguments that give these ModelOptions."""
    words = []
    for field, name in _ARGUMENTS.items():
        value = getattr(options, field)
        words += [name, *map(str, value if isinstance(value, tuple) else (value,))]
    return words
