// SPDX-License-Identifier: Apache-2.0
// Series of checkpoints: a whole one, followed by increments, each with the changes since the
// checkpoint before it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/formats/bundle/bundle.h"

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

/// A checkpoint's description of itself, in a tensor of one or three strings.
struct CheckpointInSeries {
  static constexpr char kTensor[] = "sok_compat/series";

  struct Base {
    /// Parses "<name>\n<id>"; nullopt for "". Throws kInvalidArgument.
    static std::optional<Base> In(const std::string& text);

    std::string name;  // a checkpoint in the same folder
    std::string id;
  };

  /// Of a checkpoint; nullopt if it was saved without increments in mind. Throws kDataLoss.
  static std::optional<CheckpointInSeries> In(Bundle& saved);
  std::vector<std::string> Texts() const;

  std::string id;
  std::optional<Base> base;  // nullopt: a whole checkpoint
};

/// The checkpoints that `prefix` consists of: the whole one, then each increment up to `prefix`
/// itself; only itself if it is whole. Throws kNotFound if one is missing, and kFailedPrecondition
/// if one has been replaced since the next was saved; both name the file.
std::vector<std::string> ChainOf(const FileSystem& files, const std::string& prefix);

}  // namespace sok
