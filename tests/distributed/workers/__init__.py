# SPDX-License-Identifier: Apache-2.0
"""Scripts that run as ranks. Each starts by importing `ranks`."""
