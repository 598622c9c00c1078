// SPDX-License-Identifier: Apache-2.0
// A table's tensors in a checkpoint of DeepRec's layout, saved in any number of parts.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_BUCKETS_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_BUCKETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base/placement.h"
#include "ops/tf/checkpoint/layout/wanted_rows.h"

namespace sok {

/// Selects keys of a checkpoint: those that this rank owns and whose bucket is `part` modulo
/// num_parts.
struct WantedKeys {
  int64_t num_buckets;
  int64_t num_parts;
  int64_t part;
  Placement placement;

  bool Has(int64_t key) const;
};

/// Names a plane's tensors <head><tail>-keys and so on; for a table in parts,
/// <head>/part_<i><tail>-keys.
struct PlaneName {
  std::string head;
  std::string tail;

  std::string Of(const std::string& part) const { return head + part + tail; }
};

/// The selected keys, and the position of each in the tensors that contain it, ascending.
struct SavedKeys {
  std::string plane;      // the tensors' name without '-keys'
  std::string suffix;     // "", or "_filtered" for keys without a row
  int64_t num_saved = 0;  // including keys that are not selected
  std::vector<int64_t> keys;
  std::vector<int64_t> places;
};

/// The DeepRec tensors of one checkpoint.
class SavedBuckets : public SavedTensors {
 public:
  using SavedTensors::SavedTensors;

  /// The parts that a plane was saved in: "", or "/part_0", "/part_1" and so on, even if some are
  /// missing. Looks for parts first if `parts_first`. Throws kNotFound if there is neither.
  std::vector<std::string> PartsOf(const PlaneName& name, bool parts_first);

  /// Keys are int64 or int32 in the checkpoint.
  SavedKeys Keys(const std::string& plane, const WantedKeys& wanted);
  /// Empty if the tensor is missing.
  SavedKeys FilteredKeys(const std::string& plane, const WantedKeys& wanted);
  /// Calls use(count, keys, rows) for parts of the keys, with their rows of `width` floats. Throws
  /// kInvalidArgument if the checkpoint does not have such a row for every key, even if none is
  /// selected.
  void ForEachChunk(const SavedKeys& saved, int64_t width, const UseRows& use);
  /// The tensor "-<number>", one value per key; -1 if it is empty or missing.
  std::vector<int64_t> Numbers(const SavedKeys& saved, const char* number);

 private:
  std::vector<std::string> NumberedPartsOf(const PlaneName& name);
  SavedKeys KeysIn(const std::string& plane, const char* suffix, const char* starts,
                   const WantedKeys& wanted);
  void CheckShape(const SavedKeys& saved, int64_t width);
  bool HasNone(const std::string& starts, int64_t num_saved, const WantedKeys& wanted);
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_BUCKETS_H_
