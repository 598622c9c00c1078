# SPDX-License-Identifier: Apache-2.0
"""How optimizers update tables: fused rules, and what becomes of the updates of stock ones."""
