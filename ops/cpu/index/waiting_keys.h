// SPDX-License-Identifier: Apache-2.0
// Keys that have come, but have no row yet: how often, and when last. No rows, no locks.
#ifndef SOK_OPS_CPU_INDEX_WAITING_KEYS_H_
#define SOK_OPS_CPU_INDEX_WAITING_KEYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/memory/reserved_memory.h"
#include "ops/base/threads/executor.h"
#include "ops/cpu/index/key_index.h"

namespace sok {

/// Of a key.
struct KeySeen {
  int64_t count = 0;  // occurrences in steps that trained
  int64_t step = -1;  // the last of these; -1: not known
};

/// A counting Bloom filter: what it takes, and how wrong it may be.
struct BloomOptions {
  int64_t num_counters = 0;  // 0: there is none
  int64_t num_hashes = 1;
  int64_t counter_bytes = 8;  // 1, 2, 4 or 8
};

class WaitingKeys {
 public:
  virtual ~WaitingKeys() = default;

  /// seen[i] = what is known of keys[i].
  virtual void Find(int64_t num_keys, const int64_t* keys, KeySeen* seen) const = 0;

  /// Makes room for `num_keys` more, so that Put does not fail. Throws kOutOfMemory.
  virtual void Reserve(Executor& executor, int64_t num_keys) = 0;
  /// seen[i] is what is known of keys[i] from now on; keys are distinct.
  virtual void Put(Executor& executor, int64_t num_keys, const int64_t* keys,
                   const KeySeen* seen) = 0;
  /// A key has a row now, as it has come `filter_freq` times, and waits no more.
  virtual void GetsRow(int64_t key, int64_t filter_freq) = 0;
  /// Forgets a key, if it is there.
  virtual void Erase(int64_t key) = 0;

  /// A key keeps its place until it is erased or gets its row; then others may have that place.
  virtual int64_t num_places() const = 0;
  /// Appends the keys at places in [begin, end), in their order, and what is known of them.
  virtual void Export(int64_t begin, int64_t end, std::vector<int64_t>* keys,
                      std::vector<KeySeen>* seen) const = 0;

  virtual int64_t num_bytes() const = 0;
};

/// Exact counts: an index of its own, and 24 bytes a key.
std::unique_ptr<WaitingKeys> MakeExactCounts();

/// Counts that may be too high, never too low, in memory that does not grow. It knows no steps,
/// forgets no key, also none that gets a row, and exports none. A count that does not fit stays the
/// highest one.
std::unique_ptr<WaitingKeys> MakeBloomCounts(const BloomOptions& options);

}  // namespace sok

#endif  // SOK_OPS_CPU_INDEX_WAITING_KEYS_H_
