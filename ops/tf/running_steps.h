// SPDX-License-Identifier: Apache-2.0
// The steps of sessions that use a table: which rows of evicted keys they may still hold, and which
// rows they have given out.
#ifndef SOK_OPS_TF_RUNNING_STEPS_H_
#define SOK_OPS_TF_RUNNING_STEPS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// A step is known by its container, which the bodies of its loops and branches share. A function
/// that it calls has one of its own where TensorFlow has not put its ops in the place of the call.
class RunningSteps : public std::enable_shared_from_this<RunningSteps> {
 public:
  /// Called before an op finds rows: its step counts as running until it ends. A step that has no
  /// container, whose end nobody would see, counts for ever.
  void Note(tensorflow::OpKernelContext* ctx);

  /// As Note; gives the number of the step, for Join. 0: it has no container.
  int64_t NumberOf(tensorflow::OpKernelContext* ctx);
  /// The function that `ctx` is of belongs to the step of that number, which runs.
  void Join(tensorflow::OpKernelContext* ctx, int64_t number);

  /// The step of `ctx`, which is noted, has given these rows, all of them ones that no key had, to
  /// keys; for itself, these have none until it ends.
  void Admitted(tensorflow::OpKernelContext* ctx, std::vector<int64_t> rows);
  /// Whether any step that runs has given out rows.
  bool HasAdmitted() const { return num_admitting_ > 0; }
  /// Makes kNoRow of those among `row_ids` that the step of `ctx` has given out.
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
  tensorflow::core::RefCountPtr<Step> StepOf(tensorflow::OpKernelContext* ctx);
  tensorflow::core::RefCountPtr<Step> NotedStepOf(tensorflow::OpKernelContext* ctx);
  int64_t Begin();
  void Begin(Step* step);
  void End(const Step& step);

  struct EvictedRows {
    int64_t era;  // steps of it, and of those before, may hold them
    int64_t count;
  };

  const std::string name_ =  // of a Step in its container; one for each table
      "sok_step_" + std::to_string(reinterpret_cast<uintptr_t>(this));
  std::mutex mutex_;
  int64_t era_ = 0;                  // goes up with each eviction
  std::map<int64_t, int64_t> runs_;  // {era: steps that began in it and run}
  std::deque<EvictedRows> rows_;
  int64_t last_number_ = 0;
  std::map<int64_t, Step*> steps_;          // {number: step that runs}
  int64_t table_ = 0;                       // goes up with each other table
  std::atomic<int64_t> num_admitting_ = 0;  // steps that have given out rows, and run
};

}  // namespace sok

#endif  // SOK_OPS_TF_RUNNING_STEPS_H_
