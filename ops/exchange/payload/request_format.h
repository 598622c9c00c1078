// SPDX-License-Identifier: Apache-2.0
// The bytes of a request, little-endian; shared by make_request.cc and read_request.cc.
#pragma once

#include <cstdint>

namespace sok {

/// Header of the bytes for one owner. num_keys keys follow, then for each sum its number of rows
/// and the position of each row's key, as unsigned integers of place_bytes, then the weight of each
/// row of a sum, as float32. An owner without keys is sent nothing.
struct RequestPartHeader {
  int32_t num_keys;
  int32_t num_sums;     // 0: requests the row of each key
  int16_t place_bytes;  // 2 or 4
  int16_t has_weights;  // 0 or 1
};

constexpr int64_t kRequestWeightBytes = sizeof(float);

// The message of a group starts with the sizes of its parts, int64, followed by the parts; the
// message of a single lookup is its part.

}  // namespace sok
