# SPDX-License-Identifier: Apache-2.0
"""Lookups as functions, under the module paths of distributed-embeddings."""
