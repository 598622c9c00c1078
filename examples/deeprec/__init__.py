# SPDX-License-Identifier: Apache-2.0
"""A DCNv2 on Criteo's click logs, written for DeepRec; see README.md here."""
