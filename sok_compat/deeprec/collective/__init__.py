# SPDX-License-Identifier: Apache-2.0
"""DeepRec's collective mode: strategy, sessions, estimators and exports on several ranks."""
