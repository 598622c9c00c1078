// SPDX-License-Identifier: Apache-2.0
// The keys, rows and slots read for a table: those that this rank owns, and where they go.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_RESTORED_ROWS_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_RESTORED_ROWS_H_

#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/saved_streams.h"
#include "ops/tf/checkpoint/bundle/saved_tensors.h"
#include "ops/tf/tables/table_contents.h"

namespace sok {

/// The rows of a block whose keys, the block's first tensor, this rank owns.
class OwnedRows {
 public:
  explicit OwnedRows(const Placement& placement) : placement_(placement) {}

  void Choose(const SavedBlock& block);

  int64_t count() const { return static_cast<int64_t>(keys_.size()); }
  const std::vector<int64_t>& keys() const { return keys_; }
  /// These rows of a tensor, valid until the next call.
  const void* Of(size_t tensor, int64_t row_bytes);

 private:
  const Placement placement_;
  const SavedBlock* block_ = nullptr;
  std::vector<int64_t> keys_;
  std::vector<int64_t> places_;  // in the block; empty if all are owned
  std::vector<char> chosen_;
};

/// The number of keys in a tensor, of all ranks. Throws kInvalidArgument and kNotFound.
int64_t NumKeysIn(SavedTensors& saved, const std::string& name);

/// The keys in a tensor that this rank owns.
struct OwnedKeys {
  int64_t count = 0;             // owned keys
  std::set<int64_t> pieces;      // first rows of the slices that contain some
  bool pieces_are_whole = true;  // this rank owns all keys of each of these

  /// Throws kInvalidArgument, kNotFound and kDataLoss.
  static OwnedKeys Count(SavedTensors& saved, const std::string& name, const Placement& placement);
};

/// All keys of a tensor that this rank owns.
std::vector<int64_t> ReadOwnedKeys(SavedTensors& saved, const std::string& name,
                                   const Placement& placement);

/// Rows of ordinary variables, to be assigned by the caller: of repeated row ids, the last rows
/// win.
class RowsOfVariables {
 public:
  /// `most_rows`: limit of rows to add.
  RowsOfVariables(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& widths,
                  int64_t most_rows);

  /// Adds rows that were not added before, unless `may_repeat`; row_ids are on the device.
  /// `rows_of(i)`: [count, width], of variable i.
  template <typename RowsOf>
  void Add(OpCall& call, int64_t count, const int64_t* row_ids, bool may_repeat,
           const RowsOf& rows_of) {
    if (widths_.empty()) return;
    std::vector<int64_t> room;
    Place(count, call.OnHost(row_ids, count, &room), may_repeat);
    for (size_t i = 0; i < widths_.size(); ++i) Put(i, rows_of(i));
  }
  /// As Add, for consecutive rows from `first_row` on that were not added before.
  template <typename RowsOf>
  void AddInOrder(int64_t count, int64_t first_row, const RowsOf& rows_of) {
    if (widths_.empty()) return;
    std::vector<int64_t> row_ids(static_cast<size_t>(count));
    std::iota(row_ids.begin(), row_ids.end(), first_row);
    Place(count, row_ids.data(), /*may_repeat=*/false);
    for (size_t i = 0; i < widths_.size(); ++i) Put(i, rows_of(i));
  }
  /// Removes rows that no longer have a key.
  void Remove(OpCall& call, int64_t count, const int64_t* row_ids);
  /// Sets the outputs, from the first one on: row ids, and the rows of each variable.
  void Output(tensorflow::OpKernelContext* ctx);

 private:
  void Place(int64_t count, const int64_t* row_ids, bool may_repeat);
  void Index(size_t row);
  void Put(size_t variable, const float* rows);

  const std::vector<int64_t> widths_;
  tensorflow::Tensor row_ids_;            // [most_rows], num_rows_ of them used
  std::vector<tensorflow::Tensor> rows_;  // by variable
  int64_t num_rows_ = 0;
  std::vector<int64_t> places_;        // of the rows being added
  std::vector<int64_t> place_of_row_;  // by row id, once rows may repeat; -1: none
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_RESTORED_ROWS_H_
