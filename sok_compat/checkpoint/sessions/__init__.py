# SPDX-License-Identifier: Apache-2.0
"""Sessions that save and resume tables alike on all ranks."""
