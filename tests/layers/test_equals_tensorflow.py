# SPDX-License-Identifier: Apache-2.0
"""Training on tables equals training on ordinary variables: every layer with every optimizer."""

import itertools

import numpy as np
import pytest

from tests.support.assertions import (
    assert_close,
    assert_gradients_equal,
    assert_outputs_equal,
    assert_rows_equal,
)
from tests.support.cases.layer_cases import ALL_CASES
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS
from tests.support.side_by_side import VARIED_STEPS, train_both

NUM_STEPS = 20
NUM_LAYERS = len(ALL_CASES)

layers = pytest.mark.parametrize("layer", range(NUM_LAYERS), ids=map(str, ALL_CASES))


@pytest.fixture(
    scope="module",
    params=sorted(COMMON_OPTIMIZERS, key=lambda case: case.is_other_way_in),
    ids=str,
)
def sides(request):
    steps = itertools.islice(itertools.cycle(VARIED_STEPS), NUM_STEPS)
    return train_both(ALL_CASES, request.param, steps, rewrites=True)


def test_losses(sides):
    tables, plain = sides
    assert len(tables.losses) == NUM_STEPS
    assert np.std(tables.losses) > 0.1
    assert_close(tables.losses, plain.losses)


@layers
def test_outputs(sides, layer):
    assert_outputs_equal(*sides, layer)


@layers
def test_gradients(sides, layer):
    assert_gradients_equal(*sides, layer)


@layers
def test_gradients_name_each_row_once(sides, layer):
    for slices in sides[0].slices:
        assert len(set(slices[layer].indices)) == len(slices[layer].indices)


@layers
def test_final_rows(sides, layer):
    tables, plain = sides
    assert len(tables.rows[layer]) > len(plain.rows[layer]) * 0.8
    assert_rows_equal(tables, plain, layer)
