# SPDX-License-Identifier: Apache-2.0
"""Embedding variables: their options, creation and keys."""
