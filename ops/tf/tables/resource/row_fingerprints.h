// SPDX-License-Identifier: Apache-2.0
// Checksums of a table's rows when it was last saved, which determine the rows of the next
// increment.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/history/key_history.h"
#include "ops/tf/base/engine_of_op.h"

namespace sok {

/// One bit per row id.
using RowBits = std::vector<uint64_t>;

class RowChanges;

/// Rows are compared with their saved checksums, so it does not matter how they were changed, and
/// steps record nothing. Takes 8 bytes per row, from the first save that requests it.
class RowFingerprints : public std::enable_shared_from_this<RowFingerprints> {
 public:
  /// Id of the checkpoint that holds the table as last saved; "" if there is none, or if the
  /// table's contents have been replaced since.
  std::string base() const;

  /// To be called when the table gets other contents or planes.
  void Forget();
  /// Records that these keys have lost these rows.
  void Gone(const std::vector<int64_t>& keys, const std::vector<int64_t>& row_ids);

  /// Begins a save of the rows [0, num_rows); the caller must have exclusive access to the table
  /// until it has written them. `live`: the rows that have a key; nullptr: all. `history`: included
  /// in the checksums; nullptr: none.
  std::unique_ptr<RowChanges> Compare(OpCall& call, int64_t num_rows, const RowBits* live,
                                      const std::vector<RowsView>& planes, KeyHistory* history);

 private:
  friend class RowChanges;
  static constexpr int64_t kChunkRows = 1 << 20;
  static constexpr uint64_t kNever = 0;  // checksum of a row that the last save lacks
  static constexpr uint64_t kOther = 1;  // of one that it may have, with other numbers

  void CompareRun(OpCall& call, int64_t first_row, int64_t num_rows, const RowBits* live,
                  const uint64_t* now);
  uint64_t* SumsFrom(int64_t row);
  bool WasSaved(int64_t row);
  void DropSave();

  struct FreeSums {
    void operator()(uint64_t* sums) const;
  };

  mutable std::mutex mutex_;
  int64_t number_ = 0;  // of the latest save that began, or the Forget after it
  std::string base_;
  std::vector<std::unique_ptr<uint64_t, FreeSums>>
      chunks_;                 // chunks of kChunkRows, allocated on demand
  std::vector<int64_t> gone_;  // keys that the last save has and that have lost their rows since
  RowBits changed_;            // rows found by the save in progress; else empty
};

/// The changes found by one save. Without Commit, they count as not saved.
class RowChanges {
 public:
  ~RowChanges();
  RowChanges(const RowChanges&) = delete;
  RowChanges& operator=(const RowChanges&) = delete;

  /// Rows that are live and differ from the saved ones. Valid while the caller has exclusive access
  /// to the table.
  const RowBits& rows() const { return saved_->changed_; }
  /// Keys of the last save that have lost their rows since; some may have returned.
  const std::vector<int64_t>& gone_keys() const { return gone_keys_; }

  /// Records that the checkpoint `id` holds them.
  void Commit(const std::string& id);

 private:
  friend class RowFingerprints;
  RowChanges(std::shared_ptr<RowFingerprints> saved, int64_t number, std::vector<int64_t> gone_keys)
      : saved_(std::move(saved)), number_(number), gone_keys_(std::move(gone_keys)) {}

  const std::shared_ptr<RowFingerprints> saved_;
  const int64_t number_;
  const std::vector<int64_t> gone_keys_;
};

}  // namespace sok
