# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of the rows of a table."""
