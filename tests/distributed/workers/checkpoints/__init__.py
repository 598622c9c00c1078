# SPDX-License-Identifier: Apache-2.0
"""Workers: checkpoints of several ranks."""
