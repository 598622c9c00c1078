// SPDX-License-Identifier: Apache-2.0
// How a request stands in bytes, little-endian; between make_request.cc and read_request.cc.
#ifndef SOK_OPS_EXCHANGE_PAYLOAD_REQUEST_FORMAT_H_
#define SOK_OPS_EXCHANGE_PAYLOAD_REQUEST_FORMAT_H_

#include <cstdint>

namespace sok {

/// Leads the bytes for one owner: num_keys keys follow, then for each sum how many rows it has and
/// the place of each among the keys, as unsigned integers of place_bytes, then the weight of each
/// row of a sum, as float32. Nothing is sent to an owner of no key.
struct RequestPartHeader {
  int32_t num_keys;
  int32_t num_sums;     // 0: the row of each key is asked for
  int16_t place_bytes;  // 2 or 4
  int16_t has_weights;  // 0 or 1
};

constexpr int64_t kRequestWeightBytes = sizeof(float);

// Joined to a group's message, the sizes of its parts come first, int64, then the parts; of one
// lookup the message is the part.

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PAYLOAD_REQUEST_FORMAT_H_
