# SPDX-License-Identifier: Apache-2.0
"""The root's names; where each path leads is tested with docs/use/names.md (tests/docs)."""

import pytest

import sok_compat


def test_root_lists_its_names():
    for name in sok_compat.__all__:
        assert getattr(sok_compat, name) is not None
        assert name in dir(sok_compat)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sok_compat.no_such_name
