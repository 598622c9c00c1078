// SPDX-License-Identifier: Apache-2.0
// Exports functions of the op library for Python.
#pragma once

#define SOK_EXPORT extern "C" __attribute__((visibility("default")))
