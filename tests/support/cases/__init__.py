# SPDX-License-Identifier: Apache-2.0
"""Layers, optimizers and models that tests are repeated over."""
