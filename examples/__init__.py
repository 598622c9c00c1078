# SPDX-License-Identifier: Apache-2.0
"""Example applications; run them from the repository root, `python -m examples.dlrm.demo`."""
