// SPDX-License-Identifier: Apache-2.0
// Base class of ops that read a table from a checkpoint of DeepRec's layout.
#ifndef SOK_OPS_TF_CHECKPOINT_RESTORE_BUCKETS_OP_H_
#define SOK_OPS_TF_CHECKPOINT_RESTORE_BUCKETS_OP_H_

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/formats/bundle/series.h"
#include "ops/tf/checkpoint/layout/saved_buckets.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/restored_keys.h"

namespace sok {

/// Keys and their history; -1 where none was saved.
struct SavedHistory {
  std::vector<int64_t> keys;
  std::vector<KeySeen> seen;
};

/// The table's new contents, found before the old ones are touched.
struct PartsToRestore {
  std::vector<std::string> parts;
  std::vector<SavedKeys> rows;  // by part
  SavedHistory held;            // of all parts together
  SavedHistory waiting;         // for a row
};

/// The history of keys, merged over the whole checkpoint and its increments in turn.
class MergedKeys {
 public:
  explicit MergedKeys(PartsToRestore* all);

  void Remove(const std::vector<int64_t>& keys);
  /// An increment lists all keys without rows, with their counts.
  void Add(const PartsToRestore& later);

 private:
  PartsToRestore& all_;
  std::unordered_map<int64_t, size_t> places_;
};

/// Attributes: `heads` and `tails` of the names of the rows, then of the slots `slot_names`;
/// `slot_is_required`, `num_buckets`, `num_parts`, `part`; `Tkey`.
class BucketsOp : public WholeTableOp {
 protected:
  explicit BucketsOp(tensorflow::OpKernelConstruction* ctx);

  WantedKeys Wanted(const TableOptions& options) const {
    return {num_buckets_, num_parts_, part_, options.placement};
  }
  std::vector<PlaneName> NamesOfIncrement() const;

  static PartsToRestore ReadKeys(SavedBuckets& saved, const PlaneName& name,
                                 const WantedKeys& wanted);
  /// Keys that an increment says have lost their rows.
  static std::vector<int64_t> GoneKeys(SavedBuckets& saved, const PlaneName& name,
                                       const PartsToRestore& found, const WantedKeys& wanted);
  /// The stream of later first values, which is the same for all parts.
  std::optional<uint64_t> StreamOf(SavedBuckets& saved) const;
  /// Whether the checkpoint lacks all tensors of a slot; if so, logs a warning.
  static bool IsMissing(SavedBuckets& saved, const PartsToRestore& found, const PlaneName& name);
  /// Calls use(count, keys, rows) for parts of the selected rows of a slot.
  static void ForEachRowOfSlot(SavedBuckets& saved, const PartsToRestore& found,
                               const PlaneName& name, const WantedKeys& wanted, int64_t width,
                               const UseRows& use);
  /// Identifies the contents that were found.
  static std::string SignatureOf(SavedBuckets& saved, const PartsToRestore& found,
                                 const std::vector<PlaneName>& names);

  const std::vector<std::string> slot_names_;
  const std::vector<bool> slot_is_required_;
  const int64_t num_buckets_, num_parts_, part_;
  const KeysOf keys_;
  std::vector<PlaneName> names_;  // of the rows, then of the slots
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_RESTORE_BUCKETS_OP_H_
