# SPDX-License-Identifier: Apache-2.0
"""Workers: the same numbers on any number of ranks."""
