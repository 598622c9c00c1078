// SPDX-License-Identifier: Apache-2.0
#include "ops/engine/restored_keys.h"

#include <algorithm>

#include "ops/base/error.h"

namespace sok {
namespace {

void CheckKeysAreIn(const TableOptions& options, int64_t count, const int64_t* keys, int64_t least,
                    int64_t most, const char* problem) {
  for (const int64_t* at = keys; at != keys + count; ++at) {
    const int64_t key = *at;
    if (key >= least && key <= most) continue;
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", key, " to restore is ",
          problem);
  }
}

}  // namespace

void CheckKeysAre(const TableOptions& options, int64_t count, const int64_t* keys, KeysOf are) {
  if (are == KeysOf::kUint32) {
    CheckKeysAreIn(options, count, keys, 0, UINT32_MAX,
                   "not a uint32, the table's key_dtype; use key_dtype='int64'");
  } else if (are == KeysOf::kInt32) {
    CheckKeysAreIn(options, count, keys, INT32_MIN, INT32_MAX,
                   "not an int32, as its keys are; make the table for keys of int64");
  }
}

void CheckKeysFit(const TableOptions& options, std::vector<int64_t> keys, KeysOf are) {
  SortKeysThatFit(options, &keys, are);
}

void SortKeysThatFit(const TableOptions& options, std::vector<int64_t>* keys, KeysOf are) {
  std::sort(keys->begin(), keys->end());
  const auto repeat = std::adjacent_find(keys->begin(), keys->end());
  if (repeat != keys->end()) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': key ", *repeat,
          " appears twice among the keys to restore");
  }
  CheckNumKeysFits(options, static_cast<int64_t>(keys->size()));
  CheckKeysFitOneByOne(options, static_cast<int64_t>(keys->size()), keys->data(), are);
}

void CheckKeysFitOneByOne(const TableOptions& options, int64_t count, const int64_t* keys,
                          KeysOf are) {
  CheckKeysAre(options, count, keys, are);
  if (options.use_hash_index) return;
  const int64_t num_rows = options.placement.NumRows(options.capacity);
  for (const int64_t* key = keys; key != keys + count; ++key) {
    if (options.placement.RowOf(*key, num_rows) < 0) ThrowForeignKey(options, *key);
  }
}

void CheckNumKeysFits(const TableOptions& options, int64_t num_keys) {
  if (num_keys <= options.capacity) return;
  Throw(ErrorCode::kOutOfCapacity, "table '", options.name, "': ", num_keys,
        " keys to restore, but its capacity is ", options.capacity, " rows; ",
        options.raise_capacity);
}

}  // namespace sok
