# SPDX-License-Identifier: Apache-2.0
"""Workers: DeepRec's API."""
