# SPDX-License-Identifier: Apache-2.0
"""The process and the libraries under it: TensorFlow, the op library, the ranks."""
