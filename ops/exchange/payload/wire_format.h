// SPDX-License-Identifier: Apache-2.0
// The encoding of floats in rows and gradients sent between ranks.
#ifndef SOK_OPS_EXCHANGE_PAYLOAD_WIRE_FORMAT_H_
#define SOK_OPS_EXCHANGE_PAYLOAD_WIRE_FORMAT_H_

#include <cstdint>

#include "ops/base/names.h"

namespace sok {

enum class WireDtype { kFloat32, kBfloat16, kFloat16 };

constexpr Named<WireDtype> kWireDtypes[] = {
    {"float32", WireDtype::kFloat32},
    {"bfloat16", WireDtype::kBfloat16},
    {"float16", WireDtype::kFloat16},
};

/// Bytes per number.
int64_t WireBytes(WireDtype dtype);

/// Encodes `count` numbers, rounded to nearest, ties to even; infinities and NaNs are kept. Numbers
/// beyond the float16 range are clamped to +-65,504; returns how many were.
int64_t Narrow(WireDtype dtype, const float* from, int64_t count,
               char* to);  // [count * WireBytes(dtype)], any alignment

/// Decodes the output of Narrow exactly.
void Widen(WireDtype dtype, const char* from,  // [count * WireBytes(dtype)], any alignment
           int64_t count, float* to);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PAYLOAD_WIRE_FORMAT_H_
