# SPDX-License-Identifier: Apache-2.0
"""Keras layers, under the module paths of distributed-embeddings."""
