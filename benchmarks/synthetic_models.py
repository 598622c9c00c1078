# SPDX-License-Identifier: Apache-2.0
"""distributed-embeddings' synthetic models, Tiny to Colossal: their tables, inputs and ids."""

import dataclasses

import numpy as np

POWER_LAW_EXPONENT = 1.05  # of ids
_K, _M, _G = 1000, 1_000_000, 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Tables:
    """`count` tables alike.

    hotness: ids of a sample, of each input of a table.
    """

    count: int
    rows: int
    width: int
    hotness: tuple = (1,)


@dataclasses.dataclass(frozen=True)
class SyntheticModel:
    """Tables, and the layers on top of them.

    mlp: widths of the dense layers, before the last one of width 1.
    num_numerical: numbers of a sample that are no ids.
    """

    tables: tuple
    mlp: tuple
    num_numerical: int

    def scaled(self, scale):
        """The same, with tables of `scale` times as many rows."""
        tables = tuple(
            dataclasses.replace(one, rows=max(2, round(one.rows * scale))) for one in self.tables
        )
        return dataclasses.replace(self, tables=tables)

    def shapes(self):
        """[(rows, width)] of all tables."""
        return [(one.rows, one.width) for one in self.tables for _ in range(one.count)]

    def inputs(self):
        """[(table, ids of a sample)] of all inputs."""
        of_tables = [one.hotness for one in self.tables for _ in range(one.count)]
        return [(table, ids) for table, hotness in enumerate(of_tables) for ids in hotness]

    def num_floats(self):
        """In all tables."""
        return sum(rows * width for rows, width in self.shapes())

    def batch(self, batch_size, rng):
        """([ids int64 [batch_size, ids of a sample]], numbers [batch_size, n], labels [.., 1])."""
        shapes = self.shapes()
        ids = [
            power_law(rng, shapes[table][0], (batch_size, hotness))
            for table, hotness in self.inputs()
        ]
        numbers = rng.random((batch_size, self.num_numerical), np.float32)
        return ids, numbers, rng.integers(0, 2, (batch_size, 1)).astype(np.float32)


def power_law(rng, num_rows, shape):
    """Ids below num_rows, the smaller ones the more often, int64."""
    exponent = 1 - POWER_LAW_EXPONENT
    drawn = rng.random(shape) * ((num_rows + 1.0) ** exponent - 1) + 1
    return np.minimum(drawn ** (1 / exponent) - 1, num_rows - 1).astype(np.int64)


def _model(mlp, num_numerical, *tables):
    return SyntheticModel(tuple(Tables(*one) for one in tables), mlp, num_numerical)


MODELS = {
    "criteo": _model((512, 256, 128), 13, (26, 100 * _K, 128)),
    "tiny": _model(
        (256, 128), 10,
        (1, 10 * _K, 8, (1, 10)), (1, _M, 16, (1, 10)), (1, 25 * _M, 16, (1, 10)),
        (1, 25 * _M, 16), (16, 10, 8), (10, _K, 8), (4, 10 * _K, 8), (2, 100 * _K, 16),
        (19, _M, 16),
    ),
    "small": _model(
        (512, 256, 128), 10,
        (5, 10 * _K, 16, (1, 30)), (3, 4 * _M, 32, (1, 30)), (1, 50 * _M, 32, (1, 30)),
        (1, 50 * _M, 32), (30, 10, 16), (30, _K, 16), (5, 10 * _K, 16), (5, 100 * _K, 32),
        (27, 4 * _M, 32),
    ),
    "medium": _model(
        (1024, 512, 256, 128), 25,
        (20, 100 * _K, 64, (1, 50)), (5, 10 * _M, 64, (1, 50)), (1, 100 * _M, 128, (1, 50)),
        (1, 100 * _M, 128), (80, 10, 32), (60, _K, 32), (80, 100 * _K, 64), (24, 200 * _K, 64),
        (40, 10 * _M, 64),
    ),
    "large": _model(
        (2048, 1024, 512, 256), 100,
        (40, 100 * _K, 64, (1, 100)), (16, 15 * _M, 64, (1, 100)), (1, 200 * _M, 128, (1, 100)),
        (1, 200 * _M, 128), (100, 10, 32), (100, 10 * _K, 32), (160, 100 * _K, 64),
        (50, 500 * _K, 64), (144, 15 * _M, 64),
    ),
    "jumbo": _model(
        (2048, 1024, 512, 256), 200,
        (50, 100 * _K, 128, (1, 200)), (24, 20 * _M, 128, (1, 200)), (1, 400 * _M, 256, (1, 200)),
        (1, 400 * _M, 256), (100, 10, 32), (200, 10 * _K, 64), (350, 100 * _K, 128),
        (80, _M, 128), (216, 20 * _M, 128),
    ),
    "colossal": _model(
        (4096, 2048, 1024, 512, 256), 500,
        (100, 100 * _K, 128, (1, 300)), (50, 40 * _M, 256, (1, 300)), (1, 2 * _G, 256, (1, 300)),
        (1, _G, 256), (100, 10, 32), (400, 10 * _K, 128), (100, 100 * _K, 128),
        (800, _M, 128), (450, 40 * _M, 256),
    ),
}  # fmt: skip
