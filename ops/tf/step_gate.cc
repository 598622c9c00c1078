// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/step_gate.h"

#include <algorithm>
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_mgr.h"

namespace sok {

namespace tf = tensorflow;

namespace {

constexpr size_t kMostMeetings = 4096;  // of a step that other ranks are told

}  // namespace

tf::core::RefCountPtr<StepGate> StepGate::OfSession(tf::OpKernelContext* ctx) {
  tf::ResourceMgr* manager = ctx->resource_manager();
  if (ctx->function_library() != nullptr && ctx->function_library()->device_mgr() != nullptr)
    manager = ctx->function_library()->device_mgr()->HostCPU()->resource_manager();
  StepGate* gate = nullptr;
  ThrowIfError(manager->LookupOrCreate<StepGate>(manager->default_container(), "sok_step_gate",
                                                 &gate, [](StepGate** made) {
                                                   *made = new StepGate;
                                                   return absl::OkStatus();
                                                 }));
  return tf::core::RefCountPtr<StepGate>(gate);
}

/// Its id; 0: it has ended, or nobody would see its end.
int64_t StepGate::KnownStepOf(tf::OpKernelContext* ctx) {
  const int64_t step_id = ctx->step_id();
  tf::CancellationManager* const manager = ctx->cancellation_manager();
  if (step_id == 0 || manager == nullptr) return 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!steps_.try_emplace(step_id).second) return step_id;
  }
  Ref();  // until the step ends: its manager calls back once, when it goes at the latest
  const auto end = [this, step_id] {
    End(step_id);
    Unref();
  };
  if (manager->RegisterCallback(manager->get_cancellation_token(), end)) return step_id;
  end();
  return 0;
}

void StepGate::End(int64_t step_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto step = steps_.find(step_id);
  if (step->second.has_begun && !step->second.is_exempt) --num_running_;
  steps_.erase(step);
  ended_.notify_all();
}

bool StepGate::Enter(tf::OpKernelContext* ctx, const std::optional<Meeting>& meeting, GoOn go_on) {
  const int64_t step_id = KnownStepOf(ctx);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (MayGoOn(step_id, IsOrdered(ctx), meeting)) return true;
  }
  // Not on the thread that opens the gate, which may not be there any more when the op ends.
  const auto on_thread_of_step = [runner = ctx->runner(), go_on](const absl::Status& status) {
    if (runner == nullptr) return go_on(status);
    (*runner)([go_on, status] { go_on(status); });
  };
  const auto waiter = OpWaiter<>::Make(
      ctx->cancellation_manager(),
      absl::CancelledError("the step has ended while it waited for a checkpoint to be made"),
      on_thread_of_step);  // `ctx` may be gone from here on
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({step_id, meeting, waiter});
  }
  WakeThoseWhoMay();  // the gate may have been opened meanwhile
  return false;
}

/// Notes that the step begins, if it may.
bool StepGate::MayGoOn(int64_t step_id, bool is_function, const std::optional<Meeting>& meeting) {
  Step* const step = StepOf(step_id);
  // Later ones of a step with a loop come when other ranks have begun it, too.
  if (step != nullptr && meeting && step->meetings.size() < kMostMeetings)
    step->meetings.push_back(*meeting);
  if (step != nullptr && (step->has_begun || step->is_exempt)) return true;
  // The call of a function may be a part of a step of a session, which waits for it.
  const auto runs_in_session = [](const auto& each) {
    return each.first > 0 && each.second.has_begun && !each.second.is_exempt;
  };
  if (num_closed_ > 0 && !HasBegunElsewhere(meeting) &&
      !(is_function && std::any_of(steps_.begin(), steps_.end(), runs_in_session))) {
    return false;
  }
  if (step != nullptr) Begin(step);
  return true;
}

/// Null: it has ended, or is not known.
StepGate::Step* StepGate::StepOf(int64_t step_id) {
  const auto step = steps_.find(step_id);
  return step == steps_.end() ? nullptr : &step->second;
}

bool StepGate::HasBegunElsewhere(const std::optional<Meeting>& meeting) const {
  return meeting && begun_elsewhere_.count(*meeting) > 0;
}

void StepGate::Begin(Step* step) {
  step->has_begun = true;
  if (!step->is_exempt) ++num_running_;
}

void StepGate::Close(tf::OpKernelContext* ctx) {
  const int64_t step_id = KnownStepOf(ctx);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++num_closed_;
  Step* const step = StepOf(step_id);
  if (step == nullptr) return;
  if (step->has_begun && !step->is_exempt) --num_running_;
  step->is_exempt = true;
  ended_.notify_all();
}

void StepGate::Open() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--num_closed_ == 0) begun_elsewhere_.clear();
  }
  WakeThoseWhoMay();
}

StepGate::Running StepGate::running() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Running running;
  running.num_steps = num_running_;
  for (const auto& [step_id, step] : steps_) {
    if (!step.has_begun || step.is_exempt) continue;
    running.meetings.insert(running.meetings.end(), step.meetings.begin(), step.meetings.end());
  }
  return running;
}

void StepGate::LetBegin(const std::vector<Meeting>& meetings) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    begun_elsewhere_.insert(meetings.begin(), meetings.end());
  }
  WakeThoseWhoMay();
}

bool StepGate::AwaitEnd(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_for(lock, most, [&] { return num_running_ == 0; });
}

bool StepGate::AwaitLast(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!ended_.wait_for(lock, most, [&] { return num_running_ == 0; })) return false;
  begun_elsewhere_.clear();
  return true;
}

void StepGate::LetAllBegin() { WakeThoseWhoMay(/*all=*/true); }

void StepGate::WakeThoseWhoMay(bool all) {
  std::vector<Waiting> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken = TakeThoseWhoMay(all);
  }
  for (const Waiting& each : woken) each.waiter->Wake(absl::OkStatus());
}

std::vector<StepGate::Waiting> StepGate::TakeThoseWhoMay(bool all) {
  const bool is_open = all || num_closed_ == 0;
  for (const Waiting& each : waiting_) {
    Step* const step = StepOf(each.step_id);
    if (step == nullptr || step->has_begun) continue;
    if (is_open || HasBegunElsewhere(each.meeting)) Begin(step);
  }
  const auto waits_on = std::stable_partition(waiting_.begin(), waiting_.end(), [&](auto& each) {
    const Step* const step = StepOf(each.step_id);
    return !is_open && !HasBegunElsewhere(each.meeting) && !(step != nullptr && step->has_begun);
  });
  std::vector<Waiting> woken(waits_on, waiting_.end());
  waiting_.erase(waits_on, waiting_.end());
  return woken;
}

}  // namespace sok
