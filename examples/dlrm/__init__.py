# SPDX-License-Identifier: Apache-2.0
"""A TF1-style DLRM on Criteo's click logs with sok_compat embeddings; see README.md here."""
