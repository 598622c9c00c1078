# SPDX-License-Identifier: Apache-2.0
"""The same numbers on any number of ranks."""
