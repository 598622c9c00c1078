# SPDX-License-Identifier: Apache-2.0
"""The processes that train together, and their exchanges."""
