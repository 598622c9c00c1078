# SPDX-License-Identifier: Apache-2.0
"""Feature columns over embedding variables."""
