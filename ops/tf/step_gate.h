// SPDX-License-Identifier: Apache-2.0
// Where steps wait that begin while a checkpoint is made, so that it has all of a step or nothing.
#ifndef SOK_OPS_TF_STEP_GATE_H_
#define SOK_OPS_TF_STEP_GATE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "ops/exchange/message.h"
#include "ops/tf/op_waiter.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

/// Of a session. A step begins when it first asks for rows of a table: until then it has changed
/// nothing that depends on them. It ends when TensorFlow drops its cancellation manager, or when it
/// is cancelled. In eager mode the call of a function is a step, and an op outside of functions.
class StepGate : public tensorflow::ResourceBase {
 public:
  static tensorflow::core::RefCountPtr<StepGate> OfSession(tensorflow::OpKernelContext* ctx);

  /// Before an op finds rows: true where its step may go on. Otherwise `go_on` is called once, with
  /// an error or when it may; the op may be over when this returns. `meeting`: of the lookup, if
  /// other ranks take part.
  using GoOn = std::function<void(const absl::Status&)>;
  bool Enter(tensorflow::OpKernelContext* ctx, const std::optional<Meeting>& meeting, GoOn go_on);

  // --- for who makes a checkpoint ---

  /// From now on steps wait that have not begun. That of `ctx` goes on, and nobody waits for it.
  /// Each Close has its Open.
  void Close(tensorflow::OpKernelContext* ctx);
  void Open();

  /// Steps that have begun and run, and the lookups that they have done with other ranks.
  struct Running {
    int64_t num_steps = 0;
    std::vector<Meeting> meetings;
  };
  Running running();
  /// Steps with such lookups have begun on other ranks, which wait for them: here they begin, too.
  void LetBegin(const std::vector<Meeting>& meetings);
  /// All that wait begin.
  void LetAllBegin();
  /// Whether, within that time, none is left that has begun.
  bool AwaitEnd(std::chrono::milliseconds most);
  /// As AwaitEnd, when the same holds on all ranks: if so, LetBegin has an end.
  bool AwaitLast(std::chrono::milliseconds most);

  std::string DebugString() const override { return "where steps wait while a checkpoint is made"; }

 private:
  struct Step {
    bool has_begun = false;
    bool is_exempt = false;  // it makes a checkpoint
    std::vector<Meeting> meetings;
  };
  struct Waiting {
    int64_t step_id;  // 0: of no step whose end is seen
    std::optional<Meeting> meeting;
    std::shared_ptr<OpWaiter<>> waiter;
  };

  int64_t KnownStepOf(tensorflow::OpKernelContext* ctx);
  void End(int64_t step_id);
  void WakeThoseWhoMay(bool all = false);
  // These need mutex_.
  bool MayGoOn(int64_t step_id, bool is_function, const std::optional<Meeting>& meeting);
  Step* StepOf(int64_t step_id);
  bool HasBegunElsewhere(const std::optional<Meeting>& meeting) const;
  void Begin(Step* step);
  std::vector<Waiting> TakeThoseWhoMay(bool all);

  std::mutex mutex_;
  std::condition_variable ended_;
  int64_t num_closed_ = 0;         // by how many
  int64_t num_running_ = 0;        // steps that have begun, but for exempt ones
  std::map<int64_t, Step> steps_;  // by id: those that have come here and run
  std::vector<Waiting> waiting_;
  std::set<Meeting> begun_elsewhere_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_STEP_GATE_H_
