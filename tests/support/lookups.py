# SPDX-License-Identifier: Apache-2.0
"""Single lookups, as groups of one."""

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup


def lookup(table, keys, insert):
    """The row of each key."""
    return lookup_group([Lookup(table, keys)], insert)[0]


def lookup_bags(table, keys, row_splits, combiner, insert):
    """The pooled rows of each bag."""
    return lookup_group([Lookup(table, keys, row_splits, combiner)], insert)[0]
