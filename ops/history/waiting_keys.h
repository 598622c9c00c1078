// SPDX-License-Identifier: Apache-2.0
// Keys that occurred but have no row yet: how often, and when last. No rows, no locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/memory/reserved_memory.h"
#include "ops/base/threads/executor.h"
#include "ops/engine/key_index.h"

namespace sok {

/// History of a key.
struct KeySeen {
  int64_t count = 0;  // occurrences in training steps
  int64_t step = -1;  // the last of these; -1: unknown
};

/// A number that tables record of each key: a column.
struct KeyNumber {
  const char* name;  // in checkpoints
  int64_t KeySeen::* field;
  bool with_limit;  // whether a table with a limit of keys records it
};

/// All fields of KeySeen. Memory, checkpoints, increments and fingerprints follow this list.
constexpr KeyNumber kKeyNumbers[] = {
    {"freqs", &KeySeen::count, false},
    {"versions", &KeySeen::step, true},
};
constexpr size_t kNumKeyNumbers = sizeof(kKeyNumbers) / sizeof(KeyNumber);

/// A counting Bloom filter's size, which determines its error.
struct BloomOptions {
  int64_t num_counters = 0;  // 0: no filter
  int64_t num_hashes = 1;
  int64_t counter_bytes = 8;  // 1, 2, 4 or 8
  /// Of a counter, which saturates.
  int64_t most_count() const {
    return counter_bytes == 8 ? INT64_MAX : (int64_t{1} << (8 * counter_bytes)) - 1;
  }
};

class WaitingKeys {
 public:
  virtual ~WaitingKeys() = default;

  /// seen[i] = the history of keys[i].
  virtual void Find(int64_t num_keys, const int64_t* keys, KeySeen* seen) const = 0;

  /// Allocates for `num_keys` more keys, so that Put and Admit cannot fail. Throws kOutOfMemory.
  virtual void Reserve(Executor& executor, int64_t num_keys) = 0;
  /// Sets the history of keys[i] to seen[i]; keys are distinct.
  virtual void Put(Executor& executor, int64_t num_keys, const int64_t* keys,
                   const KeySeen* seen) = 0;
  /// Removes a key that gets a row after `filter_freq` occurrences.
  virtual void Admit(int64_t key, int64_t filter_freq) = 0;
  /// Removes a key, if present.
  virtual void Erase(int64_t key) = 0;

  virtual int64_t num_keys() const = 0;  // 0 where keys are not known
  /// A key keeps its position until it is erased or admitted; then another key may take the
  /// position.
  virtual int64_t num_places() const = 0;
  /// Appends the keys at positions [begin, end), in this order, and their histories.
  virtual void Export(int64_t begin, int64_t end, std::vector<int64_t>* keys,
                      std::vector<KeySeen>* seen) const = 0;

  virtual int64_t num_bytes() const = 0;
};

/// Exact counts: a separate index, and 24 bytes per key.
std::unique_ptr<WaitingKeys> MakeExactCounts();

/// Counts in at most the memory of a Bloom filter: exact ones while these take less, then the
/// filter's, which may be too high, never too low. Does not record steps, never forgets a key, not
/// even one that gets a row, and exports those that never got one, while counts are exact. Counters
/// saturate.
std::unique_ptr<WaitingKeys> MakeBloomCounts(const BloomOptions& options);

}  // namespace sok
