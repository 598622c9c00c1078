# SPDX-License-Identifier: Apache-2.0
"""The process and the libraries below it: TensorFlow, the op library, settings."""
