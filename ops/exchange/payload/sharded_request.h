// SPDX-License-Identifier: Apache-2.0
// A rank's requests to the owners of its keys, as bytes, and the use of their replies. No table, no
// communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/base/memory/unset_vector.h"
#include "ops/base/placement.h"
#include "ops/engine/bags.h"
#include "ops/exchange/outgoing.h"

namespace sok {

struct ShardedRequestOptions {
  Placement placement;
  size_t key_bytes = 8;   // 8 or 4: low bytes sent per key
  int64_t row_bytes = 8;  // of a row, and of its gradient, if one will follow
  int64_t sum_bytes = 8;  // the same of a sum
};

/// Requests from each owner either the row of each distinct key or partial sums: the weighted sum
/// of its rows in each bag. Picks, per owner, whichever takes fewer bytes.
struct ShardedRequest {
  std::vector<char> data;             // by owner
  std::vector<int64_t> send_bytes;    // [num_ranks]
  std::vector<int64_t> reply_counts;  // [num_ranks], rows or sums, in the order of owners
  std::vector<int64_t> sum_counts;    // [num_ranks], those of them that are sums: all or none
  UnsetVector<int32_t>
      replies;  // replies that add up to each bag; kNone: the reply of each occurrence
  std::vector<int64_t> reply_splits;  // [num_bags + 1], splits of `replies` by bag; kNone: empty
  std::vector<float> reply_weights;   // [replies], factor of each; empty: all ones
  std::vector<float> factors;         // [num_bags], factor of each bag of a mean
};

/// Builds the requests for a batch.
ShardedRequest MakeRequest(const ShardedRequestOptions& options, const Bags& bags,
                           const int64_t* distinct_keys);  // [bags.num_distinct]

/// The requests of all ranks to this one, as sums of rows; a single row is a sum of one.
struct RequestedSums {
  UnsetVector<int64_t> keys;        // distinct, in the order of their first request
  UnsetVector<int32_t> key_places;  // position in `keys` of each row to be added
  UnsetVector<int64_t>
      row_splits;  // [number of sums + 1], splits of key_places by sum; empty: one row each
  std::vector<float> weights;       // [key_places], factor of each row; empty: all ones
  std::vector<int64_t> counts;      // [num_ranks], number of sums for each requesting rank
  std::vector<int64_t> sum_counts;  // as of its ShardedRequest
};

/// Parses the results of MakeRequest on all ranks. Throws kIo for malformed bytes.
RequestedSums ReadRequests(size_t key_bytes, const std::vector<std::string_view>& of_ranks);

/// Joins the requests of a group of lookups into one message per owner.
Outgoing JoinRequests(std::vector<ShardedRequest> group);

/// [lookup][rank]: the parts of the messages that JoinRequests built for as many lookups, by rank.
/// Throws kIo for malformed bytes.
std::vector<std::vector<std::string_view>> SplitRequests(
    size_t num_lookups, const std::vector<std::string_view>& messages);

}  // namespace sok
