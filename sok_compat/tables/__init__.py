# SPDX-License-Identifier: Apache-2.0
"""Tables as TensorFlow variables."""
