# SPDX-License-Identifier: Apache-2.0
"""Horovod below the ranks; the only folder that uses it."""
