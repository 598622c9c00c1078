// SPDX-License-Identifier: Apache-2.0
// Numbers keys by an array if they are close together, else by an open-addressing table of
// positions in `distinct_keys`, which holds the keys themselves.
#include "ops/base/first_appearance.h"

#include <algorithm>
#include <vector>

#include "ops/base/hash.h"
#include "ops/base/hash_secret.h"
#include "ops/base/prefetch.h"

namespace sok {
namespace {

constexpr int32_t kEmpty = -1;
/// A key's first position in the table. Takes half the time of HashKey, whose better spread a table
/// that lives for one call does not need. The factor is secret, too: differences of keys that fold
/// to the same bits depend on it alone.
class FoldedHash {
 public:
  uint64_t operator()(int64_t key) const {
    const uint64_t value = static_cast<uint64_t>(key) ^ secret_;
    return MultiplyHigh(value, odd_) ^ (value * odd_);
  }

 private:
  const uint64_t secret_ = HashSecret() ^ 0xd1b54a32d192ed03u;
  const uint64_t odd_ = MixBits(HashSecret() + 0x9e3779b97f4a7c15u) | 1;
};

constexpr int64_t kGroup = 32;  // keys whose cache lines are prefetched together; bits of a mask

/// Keys -> their number, for the length of one call.
class PositionTable {
 public:
  PositionTable(int64_t num_keys, int64_t* distinct_keys) : distinct_keys_(distinct_keys) {
    size_t num_heads = 256;
    while (num_heads < static_cast<size_t>(num_keys) * 3 / 2) num_heads *= 2;
    heads_.assign(num_heads, kEmpty);
  }

  int64_t size() const { return size_; }
  void Prefetch(uint64_t hash) const { PrefetchForWrite(&heads_[hash & mask()]); }

  /// The number at the first position for `hash`, or kEmpty.
  int32_t FirstGuess(uint64_t hash) const { return heads_[hash & mask()]; }
  /// 0 if `guess` is the number of `key`, else 1. Without a branch, which could not be predicted.
  uint32_t IsWrong(int32_t guess, int64_t key) const {
    return static_cast<uint32_t>(distinct_keys_[std::max(guess, 0)] != key) |
           static_cast<uint32_t>(guess == kEmpty);
  }

  /// The number of `key`; a new key gets the next one.
  int32_t NumberOf(int64_t key, uint64_t hash) {
    for (uint64_t slot = hash & mask();; slot = (slot + 1) & mask()) {
      const int32_t head = heads_[slot];
      if (head == kEmpty) return Append(key, slot);
      if (distinct_keys_[head] == key) return head;
    }
  }

 private:
  uint64_t mask() const { return heads_.size() - 1; }

  int32_t Append(int64_t key, uint64_t slot) {
    heads_[slot] = static_cast<int32_t>(size_);
    distinct_keys_[size_] = key;
    return static_cast<int32_t>(size_++);
  }

  int64_t* distinct_keys_;
  int64_t size_ = 0;
  std::vector<int32_t> heads_;  // size is a power of two; at most two thirds in use
};

/// A dense range of keys: an array with a number for each key from the smallest to the largest is
/// then faster than a table.
struct NearKeys {
  int64_t least = 0;
  int64_t range = 0;  // 0: the keys are not dense
};

template <typename Key>
NearKeys FindNearKeys(int64_t num_keys, const Key* keys) {
  if (num_keys == 0) return {};
  Key least = keys[0], largest = keys[0];
  for (int64_t i = 1; i < num_keys; ++i) {
    least = std::min(least, keys[i]);
    largest = std::max(largest, keys[i]);
  }
  const uint64_t distance =
      static_cast<uint64_t>(int64_t{largest}) - static_cast<uint64_t>(int64_t{least});
  if (distance >= 4 * static_cast<uint64_t>(num_keys)) return {};
  return {least, static_cast<int64_t>(distance) + 1};
}

/// Without a branch: new keys cannot be predicted.
template <typename Key>
int64_t NumberNearKeys(const NearKeys& near, int64_t num_keys, const Key* keys,
                       int64_t* distinct_keys, int32_t* inverse) {
  std::vector<int32_t> numbers(static_cast<size_t>(near.range), kEmpty);
  int32_t size = 0;
  for (int64_t i = 0; i < num_keys; ++i) {
    const int64_t key = keys[i];
    int32_t& number = numbers[static_cast<size_t>(key - near.least)];
    const bool is_new = number == kEmpty;
    number = is_new ? size : number;
    inverse[i] = number;
    distinct_keys[size] = key;
    size += is_new;
  }
  return size;
}

}  // namespace

template <typename Key>
int64_t NumberByFirstAppearance(int64_t num_keys, const Key* keys, int64_t* distinct_keys,
                                int32_t* inverse) {
  const NearKeys near = FindNearKeys(num_keys, keys);
  if (near.range > 0) return NumberNearKeys(near, num_keys, keys, distinct_keys, inverse);
  PositionTable table(num_keys, distinct_keys);
  const FoldedHash folded_hash;
  for (int64_t begin = 0; begin < num_keys; begin += kGroup) {
    const int64_t count = std::min(kGroup, num_keys - begin);
    uint64_t hashes[kGroup];
    for (int64_t i = 0; i < count; ++i) {
      hashes[i] = folded_hash(static_cast<int64_t>(keys[begin + i]));
      table.Prefetch(hashes[i]);
    }
    uint32_t others = 0;  // a bit for each key that is new or not at its first position
    for (int64_t i = 0; i < count; ++i) {
      const int32_t guess = table.FirstGuess(hashes[i]);
      others |= table.IsWrong(guess, static_cast<int64_t>(keys[begin + i])) << i;
      inverse[begin + i] = guess;
    }
    for (; others != 0; others &= others - 1) {
      const int i = __builtin_ctz(others);
      inverse[begin + i] = table.NumberOf(static_cast<int64_t>(keys[begin + i]), hashes[i]);
    }
  }
  return table.size();
}

template int64_t NumberByFirstAppearance(int64_t, const int64_t*, int64_t*, int32_t*);
template int64_t NumberByFirstAppearance(int64_t, const uint32_t*, int64_t*, int32_t*);
template int64_t NumberByFirstAppearance(int64_t, const int32_t*, int64_t*, int32_t*);

}  // namespace sok
