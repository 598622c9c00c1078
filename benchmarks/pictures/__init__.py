# SPDX-License-Identifier: Apache-2.0
"""Measurements that docs/generators/pictures.py draws; each module writes a JSON file here."""
