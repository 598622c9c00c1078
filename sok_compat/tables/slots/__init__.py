# SPDX-License-Identifier: Apache-2.0
"""Slots of tables: their variable, their registry, and the names by which they are found."""
