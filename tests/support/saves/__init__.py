# SPDX-License-Identifier: Apache-2.0
"""For tests of what is saved, and of processes that are killed meanwhile."""
