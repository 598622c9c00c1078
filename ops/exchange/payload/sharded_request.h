// SPDX-License-Identifier: Apache-2.0
// Requests of a rank to the ranks that own its keys, as bytes, and where their replies belong. No
// table, no communication.
#ifndef SOK_OPS_EXCHANGE_PAYLOAD_SHARDED_REQUEST_H_
#define SOK_OPS_EXCHANGE_PAYLOAD_SHARDED_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/base/memory/unset_vector.h"
#include "ops/base/placement.h"
#include "ops/engine/bags.h"

namespace sok {

struct ShardedRequestOptions {
  Placement placement;
  size_t key_bytes = 8;     // 8 or 4: the low bytes of a key that travel
  int64_t dim = 1;          // floats of an reply
  int64_t num_trips = 2;    // how often the floats travel: as rows, and as gradients back
  int64_t float_bytes = 4;  // of each, as it travels
};

/// An owner is requested either the row of each distinct key, or for partial sums: the sum of its
/// rows in each bag, multiplied by their weights. What costs fewer bytes is asked for, of each
/// owner apart.
struct ShardedRequest {
  std::vector<char> data;             // by owner
  std::vector<int64_t> send_bytes;    // [num_ranks]
  std::vector<int64_t> reply_counts;  // [num_ranks], of dim floats each, in the order of owners
  UnsetVector<int32_t> replies;       // those that add up to each bag; kNone: of each occurrence
  std::vector<int64_t> reply_splits;  // [num_bags + 1], of `replies` by bag; kNone: empty
  std::vector<float> reply_weights;   // [replies], what each is multiplied by; empty: all ones
  std::vector<float> factors;         // [num_bags] of a mean, what each bag is multiplied by
};

/// The requests for a batch.
ShardedRequest MakeRequest(const ShardedRequestOptions& options, const Bags& bags,
                           const int64_t* distinct_keys);  // [bags.num_distinct]

/// The requests of all ranks to this one: sums of rows, a single row being a sum of one.
struct RequestedSums {
  UnsetVector<int64_t> keys;        // distinct, in the order in which they were first asked for
  UnsetVector<int32_t> key_places;  // in `keys`, of each row to be added
  UnsetVector<int64_t> row_splits;  // [number of sums + 1], of key_places by sum; empty: each alone
  std::vector<float> weights;       // [key_places], what each row is multiplied by; empty: all ones
  std::vector<int64_t> counts;      // [num_ranks], sums for each requesting rank
};

/// Reads what MakeRequest made for this rank, on each rank. Throws kIo for bytes that no
/// MakeRequest makes.
RequestedSums ReadRequests(size_t key_bytes, const std::vector<std::string_view>& of_ranks);

/// The requests of a group of lookups, joined to one message for each owner.
struct JoinedRequest {
  std::vector<char> data;           // by owner
  std::vector<int64_t> send_bytes;  // [num_ranks]
};
JoinedRequest JoinRequests(std::vector<ShardedRequest>& group);  // moved from, where it is one

/// [lookup][rank]: the parts of messages that JoinRequests made of as many lookups, by rank.
/// Throws kIo for other bytes.
std::vector<std::vector<std::string_view>> SplitRequests(
    size_t num_lookups, const std::vector<std::string_view>& messages);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PAYLOAD_SHARDED_REQUEST_H_
