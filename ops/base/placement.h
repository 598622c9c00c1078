// SPDX-License-Identifier: Apache-2.0
// Which rank owns a key of a table, and the key's position among those of that rank. The only place
// that divides by the number of ranks.
#pragma once

#include <cstdint>

#include "ops/base/host_device.h"
#include "ops/base/names.h"

namespace sok {

/// Created once per table and passed to its users. Plain data, also for kernels.
struct Placement {
  enum class Kind {
    kModulo,      // by floormod: rank of key k is k mod num_ranks
    kOneRank,     // all on `owner_rank`: a whole table, or one of its column slices
    kRange,       // contiguous: keys [0, num_keys) in num_ranks parts, the first ones longer by one
    kReplicated,  // every rank owns all keys
  };
  Kind kind = Kind::kModulo;
  int64_t num_ranks = 1;
  int64_t rank = 0;        // this process's rank
  int64_t owner_rank = 0;  // kOneRank
  int64_t num_keys = 0;    // kRange; kModulo: of all ranks without a hash index, 0: unknown

  /// The rank that owns `key`, any int64; with kReplicated this rank. With kRange, keys outside of
  /// [0, num_keys) belong to the first or last rank; only a table without a hash index rejects
  /// them.
  SOK_HOST_DEVICE int64_t Owner(int64_t key) const {
    switch (kind) {
      case Kind::kModulo: {
        if ((num_ranks & (num_ranks - 1)) == 0) return key & (num_ranks - 1);  // no division
        const int64_t remainder = key % num_ranks;
        return remainder < 0 ? remainder + num_ranks : remainder;
      }
      case Kind::kOneRank:
        return owner_rank;
      case Kind::kRange:
        return OwnerInRange(key);
      case Kind::kReplicated:
        break;
    }
    return rank;
  }
  SOK_HOST_DEVICE bool IsOwned(int64_t key) const { return Owner(key) == rank; }

  /// The row of an owned key in a table without a hash index: 0, 1, 2, ... on each rank. Negative
  /// for a negative key.
  SOK_HOST_DEVICE int64_t LocalKey(int64_t key) const {
    if (kind == Kind::kModulo) return key >= 0 ? key / num_ranks : -1;
    if (kind == Kind::kRange) return key >= 0 ? key - RangeBegin(rank) : -1;
    return key;
  }
  /// The row of `key` in such a table with `num_rows` rows (see NumRows); -1 if the key is out of
  /// range or another rank's.
  SOK_HOST_DEVICE int64_t RowOf(int64_t key, int64_t num_rows) const {
    int64_t row = key;
    bool is_own = rank == owner_rank;
    if (kind == Kind::kModulo) {
      row = key / num_ranks;  // the only division: this runs for every key of every batch
      is_own = key - row * num_ranks == rank;
    } else if (kind != Kind::kOneRank) {
      row = LocalKey(key);
      is_own = row >= 0;
    }
    return is_own && key >= 0 && row < num_rows ? row : -1;
  }
  /// Rows of this rank in such a table with the given capacity.
  SOK_HOST_DEVICE int64_t NumRows(int64_t capacity) const {
    if (kind == Kind::kOneRank) return rank == owner_rank ? capacity : 0;
    int64_t size = capacity;
    if (kind == Kind::kRange) size = RangeBegin(rank + 1) - RangeBegin(rank);
    if (kind == Kind::kModulo && num_keys > 0) size = (num_keys - rank + num_ranks - 1) / num_ranks;
    return size < capacity ? size : capacity;
  }
  /// The key whose LocalKey on this rank is `local_key`.
  SOK_HOST_DEVICE int64_t GlobalKey(int64_t local_key) const {
    if (kind == Kind::kModulo) return local_key * num_ranks + rank;
    if (kind == Kind::kRange) return local_key + RangeBegin(rank);
    return local_key;
  }
  /// With kRange: the first key of a rank; RangeBegin(num_ranks) is num_keys.
  SOK_HOST_DEVICE int64_t RangeBegin(int64_t of_rank) const {
    const int64_t longer = num_keys % num_ranks;
    return of_rank * (num_keys / num_ranks) + (of_rank < longer ? of_rank : longer);
  }
  /// Without a hash index, keys are below this limit: the number of keys of all ranks together if
  /// each has `capacity` rows.
  SOK_HOST_DEVICE int64_t KeyLimit(int64_t capacity) const {
    if (kind == Kind::kOneRank || kind == Kind::kReplicated) return capacity;
    if (kind == Kind::kRange || num_keys > 0) return num_keys;
    return capacity > INT64_MAX / num_ranks ? INT64_MAX : capacity * num_ranks;
  }

 private:
  SOK_HOST_DEVICE int64_t OwnerInRange(int64_t key) const {
    if (key < 0) return 0;
    if (key >= num_keys) return num_ranks - 1;
    const int64_t size = num_keys / num_ranks;
    const int64_t longer = num_keys % num_ranks;
    const int64_t end_of_longer = longer * (size + 1);
    return key < end_of_longer ? key / (size + 1) : longer + (key - end_of_longer) / size;
  }
};

constexpr Named<Placement::Kind> kPlacementKinds[] = {
    {"modulo", Placement::Kind::kModulo},
    {"one_rank", Placement::Kind::kOneRank},
    {"range", Placement::Kind::kRange},
    {"replicated", Placement::Kind::kReplicated},
};

}  // namespace sok
