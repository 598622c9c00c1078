# SPDX-License-Identifier: Apache-2.0
"""How tables are stored: their parts, and what `checkpoint` keeps with each table."""
