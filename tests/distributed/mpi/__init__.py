# SPDX-License-Identifier: Apache-2.0
"""Ranks that mpiexec starts."""
