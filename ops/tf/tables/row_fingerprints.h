// SPDX-License-Identifier: Apache-2.0
// What a table was saved with last, as a sum of each row: which rows the next increment needs.
#ifndef SOK_OPS_TF_TABLES_ROW_FINGERPRINTS_H_
#define SOK_OPS_TF_TABLES_ROW_FINGERPRINTS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/cpu/index/key_history.h"
#include "ops/tf/base/engine_of_op.h"

namespace sok {

/// A bit for each row id.
using RowBits = std::vector<uint64_t>;

/// Of one plane: [rows, width].
struct PlaneToCompare {
  const float* rows;
  int64_t width;
};

class RowChanges;

/// Rows are compared with what they were, so that it does not matter who has changed them: nothing
/// is noted while steps run. It takes 8 bytes a row, from the first save on that asks for it.
class RowFingerprints : public std::enable_shared_from_this<RowFingerprints> {
 public:
  /// Id of the checkpoint that has the table as it was saved last; "": there is none, or the table
  /// has got other contents since.
  std::string base() const;

  /// The table has other contents, or other planes.
  void Forget();
  /// These keys, which had these rows, have them no more.
  void Gone(const std::vector<int64_t>& keys, const std::vector<int64_t>& row_ids);

  /// Begins a save of the rows [0, num_rows); who calls it has the table alone until it has written
  /// what it writes. `held`: those that have a key; nullptr: all. `history`: of which what is known
  /// of a row's key belongs to the row; nullptr: nothing is.
  std::unique_ptr<RowChanges> Compare(OpCall& call, int64_t num_rows, const RowBits* held,
                                      const std::vector<PlaneToCompare>& planes,
                                      KeyHistory* history);

 private:
  friend class RowChanges;
  static constexpr int64_t kChunkRows = 1 << 20;
  static constexpr uint64_t kNever = 0;  // the sum of a row that was not saved

  void CompareRun(OpCall& call, int64_t first_row, int64_t num_rows, const RowBits* held,
                  const uint64_t* now);
  uint64_t* SumsFrom(int64_t row);
  void DropSave();

  struct FreeSums {
    void operator()(uint64_t* sums) const;
  };

  mutable std::mutex mutex_;
  bool is_kept_ = false;
  int64_t number_ = 0;  // of the save that is the last to have begun, or of the Forget after it
  std::string base_;
  std::vector<std::unique_ptr<uint64_t, FreeSums>> chunks_;  // of kChunkRows; those that are needed
  std::vector<std::pair<int64_t, int64_t>> gone_;            // {key, row id}, since the last save
  RowBits changed_;  // rows that the save that runs has found; else empty
};

/// What one save has found. Unless Commit comes, all that counts as not saved.
class RowChanges {
 public:
  ~RowChanges();
  RowChanges(const RowChanges&) = delete;
  RowChanges& operator=(const RowChanges&) = delete;

  /// Rows that are held and are not as they were saved. Valid while the caller has the table alone.
  const RowBits& rows() const { return saved_->changed_; }
  /// Keys that have lost their rows since, of which some may have come again.
  const std::vector<int64_t>& gone_keys() const { return gone_keys_; }

  /// The checkpoint `id` has them.
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

#endif  // SOK_OPS_TF_TABLES_ROW_FINGERPRINTS_H_
