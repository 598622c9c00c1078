# SPDX-License-Identifier: Apache-2.0
"""A Keras model whose embedding tables are spread over ranks."""
