# SPDX-License-Identifier: Apache-2.0
"""The module paths of distributed-embeddings."""
