# SPDX-License-Identifier: Apache-2.0
"""A click model with known probabilities: samples, their features and the chance of a click.

Everything is a pure function of the seed and the number of the chunk, computed by vectorised
NumPy. A category's effect is a hash of (feature, category), so that features of ten million
categories need no table.
"""

from typing import NamedTuple

import numpy as np

from examples.dlrm import auc, criteo

# Distinct categories of C1..C26 in Criteo's public Kaggle training set.
CARDINALITIES = np.array([
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
])  # fmt: skip
ZIPF_EXPONENT = 1.2  # P(category of rank k) ~ k ** -1.2
MISSING_CATEGORY = -1  # in `Samples.categories`
MISSING_NUMBER = np.iinfo(np.int64).min  # in `Samples.numbers`

_CATEGORY_MISSING_RATES = np.zeros(criteo.NUM_CATEGORICAL)
_CATEGORY_MISSING_RATES[[2, 3, 5, 11, 15, 18, 19, 20, 21, 23, 24, 25]] = [
    0.03, 0.03, 0.12, 0.03, 0.03, 0.44, 0.44, 0.03, 0.76, 0.03, 0.44, 0.44,
]  # fmt: skip
_NUMBER_MISSING_RATES = np.array(
    [0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.0, 0.04, 0.45, 0.04, 0.77, 0.22]
)
_NUMBER_LOG_MEANS = np.array([1.0, 2.5, 2.0, 1.8, 8.0, 3.5, 1.8, 2.0, 4.0, 0.4, 1.0, 0.3, 1.8])
_NUMBER_LOG_DEVIATION = 1.2

# Standard deviations of the parts of the log-odds.
_SMALL_FEATURE_EFFECT = 0.34  # of each feature of at most _SMALL_CARDINALITY categories
_LARGE_FEATURE_EFFECT = 0.12  # of each of the others
_SMALL_CARDINALITY = 6000
_NUMBER_EFFECT = 0.12  # of each dense feature
_PAIR_EFFECT = 0.2  # of each pair of features that interact
_PAIRS = ((5, 8), (13, 16), (19, 22), (21, 24), (4, 13))
_LATENT_WIDTH = 4
_BIAS = -0.8


class Samples(NamedTuple):
    """Drawn samples, not yet text."""

    labels: np.ndarray  # [n] int64
    numbers: np.ndarray  # [n, 13] int64, MISSING_NUMBER where missing
    categories: np.ndarray  # [n, 26] int64 ranks from 0, MISSING_CATEGORY where missing
    probabilities: np.ndarray  # [n] of a click


def draw(num_samples, seed, chunk):
    """Chunk number `chunk` of the data of `seed`; the planted model depends on the seed alone."""
    random = np.random.default_rng([seed, chunk])
    categories = _draw_categories(random, num_samples)
    numbers = _draw_numbers(random, num_samples)
    log_odds = _BIAS + _category_part(categories, seed) + _number_part(numbers, seed)
    probabilities = 1.0 / (1.0 + np.exp(-log_odds))
    labels = (random.random(num_samples) < probabilities).astype(np.int64)
    return Samples(labels, numbers, categories, probabilities)


def best_auc(samples):
    """The AUC of the planted probabilities themselves: no model can expect a higher one."""
    return auc.exact_auc(samples.labels, samples.probabilities)


def _draw_categories(random, num_samples):
    """[num_samples, 26] ranks, by inverting the continuous truncated Zipf distribution."""
    uniform = random.random((num_samples, criteo.NUM_CATEGORICAL))
    power = 1.0 - ZIPF_EXPONENT
    ranks = (1.0 + uniform * ((CARDINALITIES + 1.0) ** power - 1.0)) ** (1.0 / power)
    categories = np.minimum(ranks.astype(np.int64), CARDINALITIES) - 1
    is_missing = random.random(categories.shape, dtype=np.float32) < _CATEGORY_MISSING_RATES
    categories[is_missing] = MISSING_CATEGORY
    return categories


def _draw_numbers(random, num_samples):
    """[num_samples, 13] counts, log-normal; I2 also takes the value -1, as Criteo's does."""
    shape = (num_samples, criteo.NUM_DENSE)
    logs = _NUMBER_LOG_MEANS + _NUMBER_LOG_DEVIATION * random.standard_normal(shape)
    numbers = np.exp(logs).astype(np.int64)
    numbers[:, 1] -= 1
    is_missing = random.random(shape) < _NUMBER_MISSING_RATES
    numbers[is_missing] = MISSING_NUMBER
    return numbers


def _category_part(categories, seed):
    effects = np.where(
        CARDINALITIES <= _SMALL_CARDINALITY, _SMALL_FEATURE_EFFECT, _LARGE_FEATURE_EFFECT
    )
    hashes = _hash(categories, np.arange(criteo.NUM_CATEGORICAL), seed)
    part = _normal(hashes) @ effects
    scale = _PAIR_EFFECT / np.sqrt(_LATENT_WIDTH)
    for first, second in _PAIRS:
        products = _latent(categories[:, first], first, seed)
        products *= _latent(categories[:, second], second, seed)
        part += scale * products.sum(axis=1)
    return part


def _number_part(numbers, seed):
    """A linear and a saturating function of each standardised logarithm; 0 where missing."""
    is_missing = numbers == MISSING_NUMBER
    logs = np.log1p(np.maximum(np.where(is_missing, 0, numbers), 0))
    standardised = (logs - _NUMBER_LOG_MEANS) / _NUMBER_LOG_DEVIATION
    signs = np.where(_hash(np.arange(criteo.NUM_DENSE), 100, seed) & np.uint64(1), 1.0, -1.0)
    shapes = np.where(np.arange(criteo.NUM_DENSE) % 2, np.tanh(2 * standardised), standardised)
    return np.where(is_missing, 0.0, shapes) @ (signs * _NUMBER_EFFECT)


def _hash(values, stream, seed):
    """64 mixed bits for each value (SplitMix64); other streams and seeds give other bits."""
    offset = (np.atleast_1d(stream) + 1000 * seed + 1).astype(np.uint64)  # an array may overflow
    bits = values.astype(np.uint64) + offset * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _normal(bits):
    """Nearly standard normal: the sum of four uniform numbers of 16 bits each."""
    quarters = bits.reshape(*bits.shape, 1).view(np.uint16)
    return (quarters.sum(axis=-1, dtype=np.float64) / 65535.0 - 2.0) * np.sqrt(3.0)


def _latent(categories, feature, seed):
    """[n, 4] uniform numbers of variance one."""
    bits = _hash(categories, 200 + feature, seed)
    return (bits.reshape(-1, 1).view(np.uint16) / 65535.0 - 0.5) * np.sqrt(12.0)
