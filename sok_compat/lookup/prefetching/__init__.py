# SPDX-License-Identifier: Apache-2.0
"""Requests of the next batch, made while a step runs."""
