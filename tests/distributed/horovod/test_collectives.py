# SPDX-License-Identifier: Apache-2.0
"""Horovod's collectives on a table's gradient: given back as the sum that it is, or refused."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

WAYS = ["in a session", "eager", "in a function", "forward in a function", "nested functions"]


@functools.cache
def launched():
    """One launch takes gradients in all ways."""
    return run_ranks("horovod.collectives", 2, timeout=200, environment={"SOK_TEST_EAGER": 1})


def leaves(value):
    return value if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("way", WAYS)
def test_allreduce_gives_the_sum_back(way):
    for rank in reports(launched()):
        passed, _ = rank[way]
        assert len(passed) >= 9
        for what, (before, after, factor) in passed.items():
            for ours, expected in zip(leaves(after), leaves(before)):
                if ours.dtype.kind == "f":
                    expected = expected * factor
                np.testing.assert_allclose(ours, expected, rtol=1e-6, err_msg=what)


@pytest.mark.parametrize("way", WAYS)
def test_others_are_refused(way):
    for rank in reports(launched()):
        _, errors = rank[way]
        assert len(errors) == 11
        for what, error in errors.items():
            assert error is not None, what
            kind, message = error
            assert kind == "ValueError" and "the gradient of the table EmbeddingVariable" in message
            assert "hvd." + what.split()[0].rstrip(",") in message or "before" in what


@pytest.mark.parametrize("what", ["wrapper", "wrapper with groups", "tape"])
def test_what_was_made_before_tables_is_refused(what):
    for rank in reports(launched()):
        kind, message = rank["too early"][what]
        assert kind == "RuntimeError" and "after the first table: this one was made" in message
