# SPDX-License-Identifier: Apache-2.0
"""MPI below the ranks, by mpi4py; the only folder that uses it."""
