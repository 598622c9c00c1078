# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.checkpoint`, with one module for each command. No TensorFlow."""
