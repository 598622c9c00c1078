# SPDX-License-Identifier: Apache-2.0
"""Workers: horovod's own helpers beside tables."""
