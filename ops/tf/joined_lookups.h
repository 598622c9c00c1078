// SPDX-License-Identifier: Apache-2.0
// Ops of lookups that stand side by side in a graph become one op of all their items.
#ifndef SOK_OPS_TF_JOINED_LOOKUPS_H_
#define SOK_OPS_TF_JOINED_LOOKUPS_H_

#include "tensorflow/core/graph/graph.h"

namespace sok {

/// Joins the ops of lookups that other ranks take part in, and what belongs to these: ops of a type
/// with the same settings of which none waits for another. Each then costs what one costs, and all
/// are one request of an exchange. The graph is one that will run as it is, after what a step does
/// not need has been left out. Ranks whose graphs differ around the same lookups may join others,
/// and are then told that they disagree. Ops whose inputs come from control flow, which may not
/// run, stay as they are, and so do all of a step that is fed in parts.
absl::Status JoinLookups(tensorflow::Graph* graph);

}  // namespace sok

#endif  // SOK_OPS_TF_JOINED_LOOKUPS_H_
