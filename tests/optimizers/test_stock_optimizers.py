# SPDX-License-Identifier: Apache-2.0
"""Stock optimizers train tables as they train ordinary variables, in OptimizerScope and outside."""

import dataclasses
import itertools

import numpy as np
import pytest

from tests.support.assertions import assert_close, assert_rows_equal
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import STOCK_OPTIMIZERS
from tests.support.side_by_side import VARIED_STEPS, train_both

NUM_STEPS = 50
LAYERS = [LayerCase("sum", True, "int64", 3), LayerCase("static", False, "int64", 4)]


@pytest.mark.parametrize("in_scope", [True, False], ids=["scope", "no-scope"])
@pytest.mark.parametrize("optimizer", STOCK_OPTIMIZERS, ids=str)
def test_equals_ordinary_variables(optimizer, in_scope):
    """On a table with a hash index and one without; most keys come after the first step."""
    optimizer = dataclasses.replace(optimizer, needs_scope=in_scope)
    steps = itertools.islice(itertools.cycle(VARIED_STEPS), NUM_STEPS)
    tables, plain = train_both(LAYERS, optimizer, steps)
    assert np.std(tables.losses) > 0.1
    assert_close(tables.losses, plain.losses)
    for layer in range(len(LAYERS)):
        assert len(tables.rows[layer]) > 0.8 * len(plain.rows[layer])
        assert_rows_equal(tables, plain, layer)
