// SPDX-License-Identifier: Apache-2.0
// How floats of rows and gradients stand in the bytes that ranks send each other.
#ifndef SOK_OPS_EXCHANGE_PAYLOAD_WIRE_FORMAT_H_
#define SOK_OPS_EXCHANGE_PAYLOAD_WIRE_FORMAT_H_

#include <cstdint>
#include <string>

namespace sok {

enum class WireDtype { kFloat32, kBfloat16, kFloat16 };

/// "float32", "bfloat16" or "float16"; else throws kInvalidArgument.
WireDtype ParseWireDtype(const std::string& name);

/// Of a number.
int64_t WireBytes(WireDtype dtype);

/// Writes `count` numbers, rounded to nearest, ties to even; infinities and NaNs stay such. Numbers
/// beyond the largest of float16, 65,504, become that one, with their sign; returns how many.
int64_t Narrow(WireDtype dtype, const float* from, int64_t count,
               char* to);  // [count * WireBytes(dtype)], anywhere

/// What Narrow wrote, exactly.
void Widen(WireDtype dtype, const char* from,  // [count * WireBytes(dtype)], anywhere
           int64_t count, float* to);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PAYLOAD_WIRE_FORMAT_H_
