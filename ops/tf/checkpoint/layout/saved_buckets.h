// SPDX-License-Identifier: Apache-2.0
// A table's tensors in a checkpoint of DeepRec's layout, whatever parts it was saved in.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_BUCKETS_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_BUCKETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base/placement.h"
#include "ops/tf/checkpoint/layout/wanted_rows.h"

namespace sok {

/// Which keys of all that a checkpoint has: those whose bucket is `part` modulo num_parts, and that
/// this rank owns.
struct WantedKeys {
  int64_t num_buckets;
  int64_t num_parts;
  int64_t part;
  Placement placement;

  bool Has(int64_t key) const;
};

/// Of a plane, the tensors <head><tail>-keys and so on; of a table in parts
/// <head>/part_<i><tail>-keys.
struct PlaneName {
  std::string head;
  std::string tail;

  std::string Of(const std::string& part) const { return head + part + tail; }
};

/// Keys that are wanted, and the place of each in the tensors where it was found, ascending.
struct SavedKeys {
  std::string plane;      // their tensors' name, without '-keys'
  std::string suffix;     // "", or "_filtered": of keys that have no row
  int64_t num_saved = 0;  // also of those that are not wanted
  std::vector<int64_t> keys;
  std::vector<int64_t> places;
};

/// Such tensors of one checkpoint.
class SavedBuckets : public SavedTensors {
 public:
  using SavedTensors::SavedTensors;

  /// What tells the parts that a plane was saved in: "", or "/part_0", "/part_1" and so on, also
  /// where some are missing. Parts are looked for first where `parts_first`. Throws kNotFound where
  /// there is neither.
  std::vector<std::string> PartsOf(const PlaneName& name, bool parts_first);

  /// int64 or int32 in the checkpoint.
  SavedKeys Keys(const std::string& plane, const WantedKeys& wanted);
  /// None where the tensor is not there.
  SavedKeys FilteredKeys(const std::string& plane, const WantedKeys& wanted);
  /// Calls use(count, keys, rows) for parts of the keys, with their rows of `width` floats. Throws
  /// kInvalidArgument where the checkpoint has not such a row for each key, also where none is
  /// wanted.
  void ForEachChunk(const SavedKeys& saved, int64_t width, const UseRows& use);
  /// "-versions" or "-freqs", one for each key; -1 where the tensor is empty or is not there.
  std::vector<int64_t> Numbers(const SavedKeys& saved, const char* of_numbers);

 private:
  std::vector<std::string> NumberedPartsOf(const PlaneName& name);
  SavedKeys KeysIn(const std::string& plane, const char* suffix, const char* starts,
                   const WantedKeys& wanted);
  void CheckShape(const SavedKeys& saved, int64_t width);
  bool HasNone(const std::string& starts, int64_t num_saved, const WantedKeys& wanted);
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_BUCKETS_H_
