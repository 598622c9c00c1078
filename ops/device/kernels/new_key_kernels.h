// SPDX-License-Identifier: Apache-2.0
// The kernels that collect a batch's missing keys and write their row ids back to it.
#pragma once

#include <cstdint>

#include "ops/device/kernels/index_kernels.h"

namespace sok {

/// The contents of a table, counted on the device.
struct TableCounters {
  int64_t num_keys = 0;
  int64_t num_rows = 0;  // one past the highest row ever assigned
  int64_t num_free = 0;  // rows of erased keys on the stack
  int64_t num_kept = 0;  // rows of evicted keys that are not reusable yet
};

/// Collects the keys without a row, in batch order, and their positions.
struct CompactMissing {
  const int64_t* keys;
  Rank missing;
  int64_t* missing_keys;
  int32_t* places;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    if (!missing.IsSet(i)) return;
    const int32_t rank = missing.Of(i);
    missing_keys[rank] = keys[i];
    places[rank] = static_cast<int32_t>(i);
  }
};

/// first_positions[k] = the first position of new key k in the batch.
struct PlaceFirst {
  const int32_t* places;
  int32_t* first_positions;  // in: among the missing keys; out: in the batch

  SOK_HOST_DEVICE void operator()(int64_t k) const {
    first_positions[k] = places[first_positions[k]];
  }
};

/// Writes the rows of the batch's missing keys.
struct FillMissing {
  const int32_t* places;
  const int32_t* numbers;  // index of the new key for each missing one; nullptr: the same index
  const int64_t* new_rows;
  int64_t* row_ids;

  SOK_HOST_DEVICE void operator()(int64_t rank) const {
    row_ids[places[rank]] = new_rows[numbers != nullptr ? numbers[rank] : rank];
  }
};

/// One item: adds the inserts of InsertNewKeys to the counters.
struct CommitInserts {
  TableCounters* counters;
  const int32_t* num_new;

  SOK_HOST_DEVICE void operator()(int64_t) const {
    const int64_t num_reused = *num_new < counters->num_free ? *num_new : counters->num_free;
    counters->num_keys += *num_new;
    counters->num_free -= num_reused;
    counters->num_rows += *num_new - num_reused;
  }
};

/// One bit per row, set if the row has a key.
struct VoteHasKey {
  const unsigned char* has_key;
  uint32_t* masks;

  SOK_HOST_DEVICE bool Vote(int64_t row) const { return has_key[row] != 0; }
  SOK_HOST_DEVICE void Tally(int64_t tile, uint32_t mask) const { masks[tile] = mask; }
};

struct CompactEntries {
  int64_t first_row;
  const int64_t* keys_by_row;  // of rows first_row, first_row + 1, ...
  Rank with_key;
  int64_t* keys;
  int64_t* row_ids;

  SOK_HOST_DEVICE void operator()(int64_t place) const {
    if (!with_key.IsSet(place)) return;
    const int32_t rank = with_key.Of(place);
    keys[rank] = keys_by_row[place];
    row_ids[rank] = first_row + place;
  }
};

}  // namespace sok
