# SPDX-License-Identifier: Apache-2.0
"""Runs a folder of DeepRec training scripts by the launcher, on generated data."""
