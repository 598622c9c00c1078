# SPDX-License-Identifier: Apache-2.0
"""Workers: ranks that fail, differ, or are late."""
