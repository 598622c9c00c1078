# SPDX-License-Identifier: Apache-2.0
"""Models that are drawn from a seed: variables with options, lookups of all kinds, and batches. No
TensorFlow."""

import dataclasses

import numpy as np

BATCH, STEPS = 12, 5  # samples of all ranks; 1, 2, 3 and 4 ranks divide them
EVICTION_AFTER = 3  # steps
KEYS = np.arange(-12, 12)
FILTERS = (None, None, None, ("CounterFilter", 2), ("CounterFilter", 9),
           ("CBFFilter", 3, 10_000, 1e-6), ("CBFFilter", 4))  # fmt: skip
EVICTIONS = (None, None, ("L2WeightEvict", 0.2), ("L2WeightEvict", 0.02), ("GlobalStepEvict", 2))
INITIALIZERS = (None, "uniform", "normal", "constant", "given")
OPTIMIZERS = (
    "AdagradDecayOptimizer", "AdagradDecayOptimizerV2", "AdagradOptimizer", "AdamAsyncOptimizer",
    "AdamOptimizer", "AdamWOptimizer", "FtrlOptimizer", "GradientDescentOptimizer",
    "MomentumOptimizer",
)  # fmt: skip
# How ids are looked up; the first three by one call for all lookups of that kind.
GROUPED = ("group", "sequence", "dense group")
SINGLE = ("lookup", "sparse lookup", "safe lookup")
COMBINERS = {"sparse lookup": ("mean", "sum", "sqrtn"), "safe lookup": ("mean", "sum", "sqrtn")}
WEIGHTS = (None, None, "positive", "any")


@dataclasses.dataclass(frozen=True)
class DrawnVariable:
    """An embedding variable; filter and eviction: (name of the class, its arguments), or None."""

    dim: int
    key_filter: tuple
    eviction: tuple
    initializer: str
    default_value_dim: int
    num_parts: int  # 0: no partitioner


@dataclasses.dataclass(frozen=True)
class DrawnLookup:
    """One lookup, in variable number `variable`; -1: in an ordinary one."""

    variable: int
    kind: str
    combiner: str
    is_ragged: bool
    id_dtype: str
    weights: str

    @property
    def has_bags(self):
        return self.kind not in ("lookup", "dense group")


@dataclasses.dataclass(frozen=True)
class Bags:
    """ids of each sample, and what each is multiplied by."""

    ids: list
    weights: list

    def part(self, begin, end):
        return Bags(self.ids[begin:end], self.weights[begin:end])


@dataclasses.dataclass(frozen=True)
class DrawnModel:
    """All of it; equal for equal seeds."""

    seed: int
    variables: tuple
    lookups: tuple
    optimizer: str

    def batches(self):
        """[steps] of (a Bags for each lookup, labels [BATCH]), of all ranks."""
        rng = np.random.default_rng([self.seed, 1])
        return [
            ([_bags(rng, one) for one in self.lookups], rng.integers(0, 2, BATCH))
            for _ in range(STEPS)
        ]


def drawn_model(seed):
    """The DrawnModel of a seed."""
    rng = np.random.default_rng([seed, 0])

    def one_of(values):
        return values[rng.integers(len(values))]

    # From eight variables on, a group of one process is two halves.
    num_variables = int(rng.integers(1, 5)) if rng.integers(6) else 9
    variables = tuple(
        DrawnVariable(
            dim=one_of((1, 2, 3, 4, 16)),
            key_filter=one_of(FILTERS),
            eviction=one_of(EVICTIONS),
            initializer=one_of(INITIALIZERS),
            default_value_dim=one_of((4096, 4096, 5)),
            num_parts=one_of((0, 0, 0, 3)),
        )
        for _ in range(num_variables)
    )
    every = list(range(num_variables)) if num_variables > 4 else []
    more = rng.integers(0 if every else 1, 6)
    some = [int(rng.integers(-1, num_variables)) for _ in range(more)]
    lookups = tuple(_lookup(rng, variable, variables) for variable in every + some)
    if all(one.variable < 0 for one in lookups):
        lookups += (_lookup(rng, 0, variables),)
    return DrawnModel(seed, variables, lookups, one_of(OPTIMIZERS))


def _lookup(rng, variable, variables):
    def one_of(values):
        return values[rng.integers(len(values))]

    kinds = ("group", "group", "group", *GROUPED, *SINGLE)
    if variable >= 0 and variables[variable].num_parts:
        kinds = SINGLE  # groups take no variable of several parts
    kind = one_of(kinds if variable >= 0 else GROUPED)
    return DrawnLookup(
        variable,
        kind,
        one_of(COMBINERS.get(kind, ("mean", "sum"))),
        bool(rng.integers(2)),
        one_of(("int64", "int32")),
        one_of(WEIGHTS),
    )


def _bags(rng, lookup):
    """Sums of weights are exact, so that none is nearly 0."""
    # TensorFlow's sparse lookup leaves out empty samples at the end.
    fewest = {"lookup": 2, "dense group": 2, "sparse lookup": 1}.get(lookup.kind, 0)
    most = 2 if fewest == 2 else int(rng.integers(fewest, 9))
    keys = np.abs(KEYS) if lookup.variable < 0 else KEYS
    sizes = rng.integers(fewest, most + 1, BATCH)
    ids = [rng.choice(keys, size).tolist() for size in sizes]
    lowest = -4 if lookup.weights == "any" and lookup.combiner != "sqrtn" else 1
    weights = [(rng.integers(lowest, 9, size) / 4).tolist() for size in sizes]
    return Bags(ids, weights)


def pooled(bags, rows, lookup):
    """NumPy's numbers for a lookup that keeps no sequence: [BATCH, columns].

    Args:
      bags: Bags.
      rows: {key: its row}.
      lookup: the DrawnLookup.
    """
    return np.array([_pooled_bag(*bag, rows, lookup) for bag in zip(bags.ids, bags.weights)])


def _pooled_bag(ids, weights, rows, lookup):
    if not lookup.has_bags:
        return np.concatenate([rows[key] for key in ids])
    weights = np.array(weights if lookup.weights else [1.0] * len(ids))
    ids = np.array(ids, int)
    if lookup.kind == "safe lookup":
        taken = (ids >= 0) & ((weights > 0) | (lookup.combiner == "sum"))
        ids, weights = ids[taken], weights[taken]
    zeros = np.zeros_like(next(iter(rows.values())))
    total = sum((weight * rows[key] for key, weight in zip(ids, weights)), zeros)
    divisor = {"sum": 1.0, "mean": weights.sum(), "sqrtn": np.sqrt((weights**2).sum())}
    divisor = divisor[lookup.combiner]
    return total / divisor if divisor else zeros
