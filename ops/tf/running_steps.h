// SPDX-License-Identifier: Apache-2.0
// The steps of sessions that use a table: which rows of evicted keys they may still hold, and which
// rows they have given out.
#ifndef SOK_OPS_TF_RUNNING_STEPS_H_
#define SOK_OPS_TF_RUNNING_STEPS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

class RunningSteps : public std::enable_shared_from_this<RunningSteps> {
 public:
  /// Called before an op finds rows: its step counts as running until it ends. A step that has no
  /// container, whose end nobody would see, counts for ever.
  void Note(tensorflow::OpKernelContext* ctx);

  /// The step of `ctx` has given these rows to keys; for itself, these have none until it ends.
  void Admitted(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& rows);
  /// Whether the step of `ctx` has given out any.
  bool HasAdmitted(tensorflow::OpKernelContext* ctx);
  /// Makes kNoRow of those among `row_ids`.
  void HideAdmitted(tensorflow::OpKernelContext* ctx, int64_t count, int64_t* row_ids);

  /// `num_rows` rows are nobody's now; steps that run may still hold their ids.
  void Evicted(int64_t num_rows);
  /// How many of these rows, the first ones first, no step holds any more.
  int64_t NumReturnable();
  /// So many of the first ones, as NumReturnable said, may go to new keys now.
  void Returned(int64_t num_rows);
  /// The table is another one.
  void ForgetRows();

 private:
  class Step;
  int64_t Begin();
  void End(int64_t era, int64_t step_id);

  struct EvictedRows {
    int64_t era;  // steps of it, and of those before, may hold them
    int64_t count;
  };

  std::mutex mutex_;
  int64_t era_ = 0;                  // goes up with each eviction
  std::map<int64_t, int64_t> runs_;  // {era: steps that began in it and run}
  std::deque<EvictedRows> rows_;
  std::map<int64_t, std::set<int64_t>> admitted_;  // {step id: rows}
};

}  // namespace sok

#endif  // SOK_OPS_TF_RUNNING_STEPS_H_
