// SPDX-License-Identifier: Apache-2.0
// The keys of a table in the order of their last uses. No table, no locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ops/engine/table.h"

namespace sok {

struct LastUse {
  int64_t moment;
  int64_t key;
  int64_t row_id;
};

/// Costs nothing per use: the next sixteenth of the keys is sorted when the last one is used up.
/// Later uses only make keys younger, so those whose last use is still the same are the oldest.
/// After a row was given an earlier use, start with a fresh UseOrder.
class UseOrder {
 public:
  /// Up to `count` keys last used before the moment `before`, ascending by last use, then by key,
  /// except those of `kept_rows` (ascending, may repeat). last_use(row_id): the last use of a row;
  /// never twice the same for different keys of a row. export_entries(): all keys, on the host.
  std::vector<LastUse> First(int64_t count, int64_t before, const std::vector<int64_t>& kept_rows,
                             const std::function<int64_t(int64_t row_id)>& last_use,
                             const std::function<TableEntries()>& export_entries);

  int64_t num_bytes() const { return static_cast<int64_t>(sorted_.capacity() * sizeof(LastUse)); }

 private:
  using LastUseOfRow = std::function<int64_t(int64_t row_id)>;
  std::vector<LastUse> FirstSorted(int64_t count, int64_t before,
                                   const std::vector<int64_t>& kept_rows,
                                   const LastUseOfRow& last_use);
  void Sort(int64_t count, int64_t before, const LastUseOfRow& last_use,
            const TableEntries& entries);

  std::vector<LastUse> sorted_;
  size_t next_ = 0;  // entries before are out of date
};

}  // namespace sok
