# SPDX-License-Identifier: Apache-2.0
"""For tests of DeepRec's API."""
