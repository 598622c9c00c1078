// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/key_buckets.h"

#include <algorithm>
#include <vector>

namespace sok {
namespace {

struct Entry {
  int64_t key, row_id;
};

constexpr int64_t kRowIdsAtOnce = 1 << 20;
constexpr int64_t kSortNanoseconds = 100;  // per entry, for a bucket of average size

/// The start of each bucket, followed by the end of the last one.
std::vector<int64_t> BucketStarts(int64_t num_keys, const int64_t* keys, int64_t num_buckets) {
  std::vector<int64_t> starts(static_cast<size_t>(num_buckets + 1));
  for (int64_t i = 0; i < num_keys; ++i) {
    ++starts[static_cast<size_t>(BucketOf(keys[i], num_buckets) + 1)];
  }
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  return starts;
}

}  // namespace

TableEntries InBuckets(OpCall& call, KeysInOrder& live, int64_t num_buckets) {
  const int64_t num_keys = live.count();
  const auto count = static_cast<size_t>(num_keys);
  std::vector<int64_t> keys, row_ids, buffer;
  keys.reserve(count);
  row_ids.reserve(count);
  live.ForEachKeys(
      [&](int64_t of_part, const int64_t* part) { keys.insert(keys.end(), part, part + of_part); });
  live.ForEachRowIds(kRowIdsAtOnce, [&](int64_t of_part, const int64_t* on_device) {
    const int64_t* part = call.OnHost(on_device, of_part, &buffer);
    row_ids.insert(row_ids.end(), part, part + of_part);
  });
  const std::vector<int64_t> starts = BucketStarts(num_keys, keys.data(), num_buckets);
  std::vector<Entry> entries(count);
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (size_t i = 0; i < count; ++i) {
    const int64_t place = next[static_cast<size_t>(BucketOf(keys[i], num_buckets))]++;
    entries[static_cast<size_t>(place)] = {keys[i], row_ids[i]};
  }
  const int64_t nanoseconds = num_keys / num_buckets * kSortNanoseconds + 1;
  call.executor().ParallelFor(num_buckets, nanoseconds, [&](int64_t begin, int64_t end) {
    for (auto bucket = static_cast<size_t>(begin); bucket < static_cast<size_t>(end); ++bucket) {
      std::sort(entries.begin() + starts[bucket], entries.begin() + starts[bucket + 1],
                [](const Entry& a, const Entry& b) { return a.key < b.key; });
    }
  });
  for (size_t i = 0; i < count; ++i) {
    keys[i] = entries[i].key;
    row_ids[i] = entries[i].row_id;
  }
  int64_t* found_keys = call.Temporary<int64_t>(num_keys);
  int64_t* found_row_ids = call.Temporary<int64_t>(num_keys);
  call.CopyFromHost(found_keys, keys.data(), num_keys);
  call.CopyFromHost(found_row_ids, row_ids.data(), num_keys);
  return {num_keys, found_keys, found_row_ids};
}

}  // namespace sok
