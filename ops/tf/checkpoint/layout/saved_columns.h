// SPDX-License-Identifier: Apache-2.0
// Columns of a table in a checkpoint, in either layout, and those of their keys that this rank
// takes.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_COLUMNS_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_COLUMNS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ops/base/placement.h"
#include "ops/formats/bundle/saved_streams.h"
#include "ops/tf/checkpoint/bundle/saved_tensors.h"

namespace sok {

/// The keys that this rank owns and, of a table in parts, whose bucket is `part` modulo num_parts.
struct WantedKeys {
  bool are_all() const { return num_parts == 1 && placement.num_ranks == 1; }
  bool Has(int64_t key) const;

  Placement placement;
  int64_t num_buckets = 1, num_parts = 1, part = 0;
};

/// The rows of a block whose keys, the block's first tensor, are wanted.
class WantedRows {
 public:
  WantedRows(const WantedKeys& wanted, bool are_narrow)
      : wanted_(wanted), are_narrow_(are_narrow) {}

  void Choose(const SavedBlock& block);

  int64_t count() const { return static_cast<int64_t>(keys_.size()); }
  const std::vector<int64_t>& keys() const { return keys_; }
  /// These rows of a tensor, valid until the next call.
  const void* Of(size_t tensor, int64_t row_bytes);

 private:
  const WantedKeys wanted_;
  const bool are_narrow_;
  const SavedBlock* block_ = nullptr;
  std::vector<int64_t> keys_;
  std::vector<int64_t> places_;  // in the block; empty if all are wanted
  std::vector<char> chosen_;
};

/// Keys, int64 or int32, and tensors with a row for each of them: slices of all ranks, or one
/// part's.
struct SavedColumns {
  struct Column {
    std::string name;
    size_t place;       // among the columns of the table, and its ordinary variables
    int64_t width = 0;  // of saved rows, if it is not the table's
  };

  /// Throws kInvalidArgument and kNotFound.
  SavedColumns(SavedTensors& saved, std::string name_of_keys);

  /// Counts the wanted keys.
  void Count(SavedTensors& saved, const WantedKeys& wanted);

  /// Calls use(rows) for the blocks that have wanted keys, with the columns in their order behind
  /// the keys; `place` as in SavedStreams. Verifies the checksums of all that it reads.
  using Use = std::function<void(WantedRows& rows)>;
  void ForEachBlock(SavedTensors& saved, const WantedKeys& wanted, const Use& use,
                    const SavedStreams::Place& place = nullptr) const;
  /// Whether every slice that has wanted keys has no others, and all columns have the same slices.
  bool AreWholeSlices(SavedTensors& saved) const;

  std::string keys;
  std::string starts;  // where each bucket starts: parts without wanted keys are not read; may lack
  std::vector<Column> columns;
  int64_t most_rows = INT64_MAX;  // of a block
  int64_t num_keys = 0;           // of all ranks
  bool are_narrow = false;        // int32
  int64_t num_wanted = 0;

 private:
  std::vector<std::string> Names() const;

  std::set<int64_t> slices_;  // the first rows of those that have wanted keys
  bool slices_are_whole_ = true;
};

/// The wanted keys in a tensor.
std::vector<int64_t> ReadWantedKeys(SavedTensors& saved, const std::string& name,
                                    const WantedKeys& wanted);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_COLUMNS_H_
