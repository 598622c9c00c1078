# SPDX-License-Identifier: Apache-2.0
"""The options of a model with their defaults and their command line arguments. No TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """What is trained and how; nothing about files."""

    dim: int = 16  # of a vector; a row of a table has one float more, the bias
    epochs: int = 15
    batch_size: int = 1024  # ratings in a step
    learning_rate: float = 0.012  # of LazyAdam, in the first epoch
    learning_rate_decay: float = 0.8  # factor from epoch to epoch
    vector_penalty: float = 0.12  # of the squares of the vectors of each rating
    bias_penalty: float = 0.02  # of the squares of its biases

    def __post_init__(self):
        for name in ("dim", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "learning_rate_decay"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("vector_penalty", "bias_penalty"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")


_HELP = {
    "dim": "length of a vector",
    "epochs": "passes over the training ratings",
    "batch_size": "ratings in a step",
    "learning_rate": "of LazyAdam, in the first epoch",
    "learning_rate_decay": "factor of the learning rate from epoch to epoch",
    "vector_penalty": "of the squares of the vectors of each rating",
    "bias_penalty": "of the squares of the biases of each rating",
}


def add_model_arguments(parser):
    """Adds one argument for each field of ModelOptions."""
    for field in dataclasses.fields(ModelOptions):
        parser.add_argument(
            "--" + field.name.replace("_", "-"),
            type=field.type,
            default=field.default,
            help=f"{_HELP[field.name]} (default: %(default)s)",
        )


def model_options(arguments):
    """ModelOptions from parsed arguments; ValueError where one is out of range."""
    names = [field.name for field in dataclasses.fields(ModelOptions)]
    return ModelOptions(**{name: getattr(arguments, name) for name in names})
