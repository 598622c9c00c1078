# SPDX-License-Identifier: Apache-2.0
"""Plans: which rank holds which tables and parts of tables."""
