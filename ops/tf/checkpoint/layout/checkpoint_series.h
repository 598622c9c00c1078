// SPDX-License-Identifier: Apache-2.0
// Series of checkpoints: a whole one, followed by increments, each with the changes since the
// checkpoint before it.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_CHECKPOINT_SERIES_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_CHECKPOINT_SERIES_H_

#include <optional>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/saved_tensors.h"

namespace sok {

/// Appended to the names of tensors of an increment, so that readers that do not know increments
/// cannot mistake them for whole tables.
constexpr char kIncrementEnding[] = ".increment";
/// Appended to a table's name: keys that have lost their rows.
constexpr char kGoneEnding[] = "/gone.increment";
/// The same in DeepRec's layout, appended after the ending.
constexpr char kGoneOfBuckets[] = "-gone";
/// Ends as one of DeepRec's tensors: programs that walk through names take no such tensor for an
/// ordinary variable.
constexpr char kSeedOfBuckets[] = "-seed-versions";

/// A checkpoint's description of itself, in a tensor of strings [1] or [3].
struct CheckpointInSeries {
  static constexpr char kTensor[] = "sok_compat/series";

  struct Base {
    std::string name;  // a checkpoint in the same folder
    std::string id;
  };

  std::string id;
  std::optional<Base> base;  // nullopt: a whole checkpoint

  tensorflow::Tensor ToTensor() const;
};

/// Parses "<name>\n<id>"; nullopt for "". Throws kInvalidArgument.
std::optional<CheckpointInSeries::Base> BaseIn(const std::string& text);

/// The checkpoints that `prefix` consists of: the whole one, then each increment up to `prefix`
/// itself; only itself if it is whole. Throws kNotFound if one is missing, and kFailedPrecondition
/// if one has been replaced since the next was saved; both name the file.
std::vector<std::string> ChainOf(const std::string& prefix);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_CHECKPOINT_SERIES_H_
