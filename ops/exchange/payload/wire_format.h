// SPDX-License-Identifier: Apache-2.0
// The encoding of floats in rows and gradients sent between ranks.
#pragma once

#include <cstdint>

#include "ops/engine/rows_view.h"

namespace sok {

/// Encodes `count` numbers, rounded to nearest, ties to even; infinities and NaNs are kept. Numbers
/// beyond the float16 range are clamped to +-65,504; returns how many were.
int64_t Narrow(Element dtype, const float* from, int64_t count,
               char* to);  // [count * ElementBytes(dtype)], any alignment

/// Decodes the output of Narrow exactly.
void Widen(Element dtype, const char* from,  // [count * ElementBytes(dtype)], any alignment
           int64_t count, float* to);

}  // namespace sok
