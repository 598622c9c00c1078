# SPDX-License-Identifier: Apache-2.0
"""Workers that import no Horovod."""
