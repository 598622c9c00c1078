// SPDX-License-Identifier: Apache-2.0
// Before rows are touched: brings those into memory that are in a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/base/memory/page_cache.h"
#include "ops/engine/rows_view.h"
#include "ops/engine/table.h"

namespace sok {

/// Planes of which a batch uses the same rows; columns of one plane are one.
class PlanesToFetch {
 public:
  PlanesToFetch() = default;
  explicit PlanesToFetch(const RowsView& view) { Add(view); }

  void Add(const RowsView& view) {
    const auto is_same = [&](const RowsInFile& other) { return other.file == view.file; };
    if (view.file == nullptr || std::any_of(in_files_.begin(), in_files_.end(), is_same)) return;
    in_files_.push_back({view.file, view.data, view.row_bytes()});
  }
  void Add(const Planes& planes) {
    planes.ForEach([&](const Plane& plane) { Add(plane.data()); });
  }
  /// Whether no plane is in a file: there is nothing to fetch.
  bool empty() const { return in_files_.empty(); }
  /// The rows `row_ids`, of which those below 0 are skipped; nullptr: 0, 1, 2, ...
  void Fetch(int64_t count, const int64_t* row_ids, RowUse use) const {
    if (!in_files_.empty()) FetchRowsInFiles(in_files_, count, row_ids, use);
  }

 private:
  std::vector<RowsInFile> in_files_;
};

inline void FetchRows(const RowsView& view, int64_t count, const int64_t* row_ids, RowUse use) {
  PlanesToFetch(view).Fetch(count, row_ids, use);
}

}  // namespace sok
