# SPDX-License-Identifier: Apache-2.0
"""The fixture of all tests of the saver."""

import pytest

from tests.support.saves.saved_table import SavedTable


@pytest.fixture
def make_table(sok, tmp_path):
    """Makes SavedTables whose folder is tmp_path."""
    return lambda **options: SavedTable(tmp_path, **options)
