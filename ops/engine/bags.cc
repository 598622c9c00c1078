// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/bags.h"

#include <algorithm>
#include <numeric>

#include "ops/base/error.h"

namespace sok {

void CheckBatchSize(int64_t num_keys, int64_t most_keys) {
  if (num_keys <= most_keys) return;
  Throw(ErrorCode::kInvalidArgument, "a batch of ", num_keys, " keys is above the limit of ",
        most_keys, "; split it into several batches");
}

void CheckLengths(const Bags& bags, const char* what) {
  if (bags.num_keys > kMaxBatchKeys || bags.num_bags > kMaxBatchKeys) {
    Throw(ErrorCode::kInvalidArgument, what, ": a batch is limited to ", kMaxBatchKeys,
          " keys and as many bags, got ", bags.num_keys, " and ", bags.num_bags);
  }
  if (bags.combiner == Combiner::kNone && bags.num_bags != bags.num_keys) {
    Throw(ErrorCode::kInvalidArgument, what,
          ": without a combiner the number of outputs must equal ", "the number of keys, ",
          bags.num_keys, ", got ", bags.num_bags);
  }
  if (bags.combiner == Combiner::kNone && (bags.weights != nullptr || bags.factors != nullptr)) {
    Throw(ErrorCode::kInvalidArgument, what, ": weights need a combiner");
  }
  if (bags.num_bags == 0 && bags.num_keys > 0) {
    Throw(ErrorCode::kInvalidArgument, what, ": row_splits must ascend from 0 to ", bags.num_keys,
          ", the number of keys");
  }
}

bool IsOneToOneInOrder(const Bags& bags) {
  if (bags.combiner != Combiner::kNone || bags.num_keys != bags.num_distinct) return false;
  for (int64_t i = 0; i < bags.num_keys; ++i) {
    if (bags.inverse[i] != i) return false;
  }
  return true;
}

namespace {

/// Whether entry i is in row i for all i.
bool IsOneInEachRow(int64_t num_keys, const int64_t* indices) {
  constexpr int64_t kBlock = 256;  // compared without a branch in between
  for (int64_t begin = 0; begin < num_keys; begin += kBlock) {
    int64_t difference = 0;
    for (int64_t i = begin; i < std::min(begin + kBlock, num_keys); ++i) {
      difference |= indices[2 * i] ^ i;
    }
    if (difference != 0) return false;
  }
  return true;
}

}  // namespace

void RowSplitsFromIndices(const std::string& layer_name, int64_t num_keys, const int64_t* indices,
                          int64_t num_bags, int64_t max_keys_per_bag, int64_t* row_splits) {
  if (num_keys == num_bags && max_keys_per_bag > 0 &&
      IsOneInEachRow(num_keys, indices)) {  // takes a third of the time
    std::iota(row_splits, row_splits + num_bags + 1, int64_t{0});
    return;
  }
  int64_t open_bag = 0;
  row_splits[0] = 0;
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t bag = indices[2 * i];
    if (bag < 0 || bag >= num_bags) {
      Throw(ErrorCode::kInvalidArgument, layer_name, ": entry ", i,
            " of the SparseTensor has row index ", bag, ", but dense_shape has ", num_bags,
            " rows");
    }
    if (bag < open_bag) {
      Throw(ErrorCode::kInvalidArgument, layer_name,
            ": the row indices of the SparseTensor must ascend, but entry ", i, " has row ", bag,
            " after row ", open_bag, "; apply tf.sparse.reorder to it first");
    }
    while (open_bag < bag) row_splits[++open_bag] = i;
    if (i - row_splits[bag] >= max_keys_per_bag) {
      Throw(ErrorCode::kInvalidArgument, layer_name, ": row ", bag,
            " of the SparseTensor has more than max_nnz = ", max_keys_per_bag,
            " keys; raise max_nnz or drop keys");
    }
  }
  while (open_bag < num_bags) row_splits[++open_bag] = num_keys;
}

}  // namespace sok
