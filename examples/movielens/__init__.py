# SPDX-License-Identifier: Apache-2.0
"""Rating prediction on MovieLens 100K with sok_compat embeddings, TF1 style; see README.md here."""
