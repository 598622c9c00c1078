// SPDX-License-Identifier: Apache-2.0
// Which checkpoints belong together: a whole one, and increments, each of which holds what has
// changed since the one before it.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_CHECKPOINT_SERIES_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_CHECKPOINT_SERIES_H_

#include <optional>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/saved_tensors.h"

namespace sok {

/// Behind the names that a whole checkpoint has, those of an increment: who does not know of
/// increments does not take one for whole tables.
constexpr char kIncrementEnding[] = ".increment";
/// Behind the name of a table: keys that have no rows any more.
constexpr char kGoneEnding[] = "/gone.increment";
/// The same in DeepRec's layout, behind the ending.
constexpr char kGoneOfBuckets[] = "-gone";

/// What a checkpoint says of itself, in a tensor of strings [1] or [3].
struct CheckpointInSeries {
  static constexpr char kTensor[] = "sok_compat/series";

  struct Base {
    std::string name;  // of a checkpoint in the same folder
    std::string id;
  };

  std::string id;
  std::optional<Base> base;  // none: it is whole

  tensorflow::Tensor ToTensor() const;
};

/// Of "<name>\n<id>"; none of "". Throws kInvalidArgument.
std::optional<CheckpointInSeries::Base> BaseIn(const std::string& text);

/// What `prefix` is made of: the whole checkpoint first, then each increment up to `prefix` itself;
/// that alone, where it is whole. Throws kNotFound where one is missing, and kFailedPrecondition
/// where one is not the one that the next was made for; both name the file.
std::vector<std::string> ChainOf(const std::string& prefix);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_CHECKPOINT_SERIES_H_
