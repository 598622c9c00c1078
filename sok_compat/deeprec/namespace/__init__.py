# SPDX-License-Identifier: Apache-2.0
"""The `tf` that scripts of DeepRec import."""
