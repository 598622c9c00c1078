# SPDX-License-Identifier: Apache-2.0
"""Starting tables from a checkpoint or dump."""
