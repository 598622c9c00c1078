// SPDX-License-Identifier: Apache-2.0
// A reference model of a table: the meaning of row ids, on standard containers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "ops/engine/table_options.h"

namespace sok::testing {

class TableModel {
 public:
  explicit TableModel(const TableOptions& options) : options_(options) {}

  std::vector<int64_t> Find(const std::vector<int64_t>& keys) const {
    std::vector<int64_t> row_ids;
    for (const int64_t key : keys) {
      const auto entry = row_of_.find(key);
      row_ids.push_back(entry == row_of_.end() ? kNoRow : entry->second);
    }
    return row_ids;
  }

  std::vector<int64_t> FindOrInsert(const std::vector<int64_t>& keys) {
    for (const int64_t key : keys) {
      if (row_of_.count(key) == 0) row_of_[key] = NextRow(key);
    }
    return Find(keys);
  }

  int64_t Erase(const std::vector<int64_t>& keys) { return EraseInto(&free_rows_, keys); }
  int64_t Evict(const std::vector<int64_t>& keys) { return EraseInto(&kept_rows_, keys); }

  void ReturnRows(int64_t num_rows) {
    const auto end = kept_rows_.begin() + num_rows;
    free_rows_.insert(free_rows_.end(), kept_rows_.begin(), end);
    kept_rows_.erase(kept_rows_.begin(), end);
  }

  /// Row ids and their keys.
  std::map<int64_t, int64_t> Entries() const {
    std::map<int64_t, int64_t> entries;
    for (const auto& [key, row] : row_of_) entries[row] = key;
    return entries;
  }
  int64_t num_keys() const { return static_cast<int64_t>(row_of_.size()); }
  int64_t num_rows() const { return num_rows_; }

 private:
  int64_t EraseInto(std::vector<int64_t>* rows, const std::vector<int64_t>& keys) {
    int64_t num_erased = 0;
    for (const int64_t key : keys) {
      const auto entry = row_of_.find(key);
      if (entry == row_of_.end()) continue;
      rows->push_back(entry->second);
      row_of_.erase(entry);
      ++num_erased;
    }
    return num_erased;
  }

  /// Rows of erased keys first, the last erased first.
  int64_t NextRow(int64_t key) {
    int64_t row = num_rows_;
    if (!options_.use_hash_index) {
      row = options_.placement.LocalKey(key);
    } else if (!free_rows_.empty()) {
      row = free_rows_.back();
      free_rows_.pop_back();
    }
    num_rows_ = std::max(num_rows_, row + 1);
    return row;
  }

  const TableOptions options_;
  std::unordered_map<int64_t, int64_t> row_of_;
  std::vector<int64_t> free_rows_;
  std::vector<int64_t> kept_rows_;  // of evicted keys
  int64_t num_rows_ = 0;
};

}  // namespace sok::testing
