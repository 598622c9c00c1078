# SPDX-License-Identifier: Apache-2.0
"""How optimizers update tables: fused rules, and rewritten updates of stock optimizers."""
