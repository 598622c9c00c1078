# SPDX-License-Identifier: Apache-2.0
"""The options of the model, their defaults and command line arguments. No TensorFlow."""

import dataclasses
import math

EMBEDDINGS = {
    "group": "tf.nn.group_embedding_lookup_sparse on embedding variables",
    "columns": "feature columns in a group_embedding_column_scope, and tf.feature_column."
    "input_layer",
    "plain": "an ordinary variable and tf.nn.embedding_lookup for each feature",
}
_HELP = {
    "embedding": "; ".join(f"{name}: {what}" for name, what in EMBEDDINGS.items()),
    "rows": "rows of each variable with --embedding plain: key k uses row k mod rows",
    "dim": "length of an embedding vector",
    "cross_layers": "number of cross layers",
    "cross_rank": "rank of the weights of cross layers",
    "deep": "widths of the deep part's hidden layers",
    "learning_rate": "learning rate of Adagrad for embeddings",
    "dense_learning_rate": "learning rate of Adam for other weights",
    "batch_size": "samples in a step, over all ranks",
    "seed": "seed of all initial values",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the model and its training; none of files."""

    embedding: str = "group"  # of EMBEDDINGS
    rows: int = 1 << 17
    dim: int = 16
    cross_layers: int = 2
    cross_rank: int = 32
    deep: tuple = (64, 32)
    learning_rate: float = 0.05
    dense_learning_rate: float = 0.001
    batch_size: int = 2048
    seed: int = 1

    def __post_init__(self):
        if self.embedding not in EMBEDDINGS:
            raise ValueError(f"embedding must be one of {[*EMBEDDINGS]}, got {self.embedding!r}")
        for name in ("rows", "dim", "cross_layers", "cross_rank", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if min(self.deep, default=1) < 1:
            raise ValueError(f"hidden layers must be at least 1 wide, got {self.deep}")
        for name in ("learning_rate", "dense_learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")


def add_arguments(parser):
    """Adds one argument for each field of Options."""
    for field in dataclasses.fields(Options):
        kind = {"type": field.type if field.type is not tuple else int}
        if field.type is tuple:
            kind["nargs"] = "*"
        if field.name == "embedding":
            kind["choices"] = EMBEDDINGS
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=field.default,
            help=f"{_HELP[field.name]} (default: %(default)s)",
            **kind,
        )


def options_of(arguments):
    """Options from parsed arguments; ValueError: a value out of range."""
    values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Options)}
    return Options(**{**values, "deep": tuple(values["deep"])})
