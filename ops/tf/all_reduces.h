// SPDX-License-Identifier: Apache-2.0
// Horovod's sums of dense gradients, made by the exchanges of the lookups that they stand beside.
#ifndef SOK_OPS_TF_ALL_REDUCES_H_
#define SOK_OPS_TF_ALL_REDUCES_H_

#include "tensorflow/core/graph/graph.h"

namespace sok {

/// Puts SokAllReduce in the place of each HorovodAllreduce and HorovodGroupedAllreduce that sums or
/// averages float32 on the CPU over all ranks, in a graph with exchanges of tables: all ranks run
/// such a step together. One that may not run when others do stays, and so do all where ranks do
/// not share memory. Whether one does, is the same on all ranks.
absl::Status TakeOverAllReduces(tensorflow::Graph* graph);

}  // namespace sok

#endif  // SOK_OPS_TF_ALL_REDUCES_H_
