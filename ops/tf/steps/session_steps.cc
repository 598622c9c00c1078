// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/steps/session_steps.h"

#include "ops/tf/base/border.h"
#include "ops/tf/base/op_waiter.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_mgr.h"

namespace sok {

/// Lives in a container of the step, which TensorFlow empties when the step has ended.
class SessionSteps::Witness : public tf::ResourceBase {
 public:
  Witness(SessionSteps* steps, int64_t step) : step_(step) {
    steps->Ref();
    steps_.reset(steps);
    steps_->registry_.AddReference(step_);
  }
  ~Witness() override { steps_->registry_.Release(step_); }
  std::string DebugString() const override { return "a step that uses tables"; }

 private:
  tf::core::RefCountPtr<SessionSteps> steps_;
  const int64_t step_;
};

tf::core::RefCountPtr<SessionSteps> SessionSteps::Of(tf::OpKernelContext* ctx) {
  tf::ResourceMgr* manager = ctx->resource_manager();
  if (ctx->function_library() != nullptr && ctx->function_library()->device_mgr() != nullptr)
    manager = ctx->function_library()->device_mgr()->HostCPU()->resource_manager();
  SessionSteps* steps = nullptr;
  ThrowIfError(manager->LookupOrCreate<SessionSteps>(manager->default_container(), "sok_steps",
                                                     &steps, [](SessionSteps** made) {
                                                       *made = new SessionSteps;
                                                       return absl::OkStatus();
                                                     }));
  return tf::core::RefCountPtr<SessionSteps>(steps);
}

int64_t SessionSteps::NumberAmongSessionsOf(int64_t graph) {
  static std::mutex mutex;
  static auto* const num_sessions = new std::map<int64_t, int64_t>;  // by graph; never destroyed
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [number, is_new] = numbers_.try_emplace(graph);
  if (is_new) number->second = (*num_sessions)[graph]++;
  return number->second;
}

void SessionSteps::NoteInitializedAgain(const std::string& table) {
  const std::lock_guard<std::mutex> lock(initialized_again_mutex_);
  ++initialized_again_[table];
}

void SessionSteps::NoteRestored(const std::string& table) {
  const std::lock_guard<std::mutex> lock(initialized_again_mutex_);
  initialized_again_.erase(table);
}

std::string SessionSteps::InitializedAgain(const std::vector<std::string>& tables) {
  const std::lock_guard<std::mutex> lock(initialized_again_mutex_);
  std::string lines;
  for (const std::string& table : tables) {
    const auto times = initialized_again_.find(table);
    if (times == initialized_again_.end()) continue;
    lines += "\ninitialized table " + table +
             " again after lookups, times: " + std::to_string(times->second) +
             "; run its initializer on all ranks, or on none";
  }
  return lines;
}

int64_t SessionSteps::StepOf(tf::OpKernelContext* ctx) {
  tf::CancellationManager* const manager = ctx->cancellation_manager();
  if (manager == nullptr) return StepRegistry::kUnseen;
  tf::ScopedStepContainer* const container = ctx->step_container();
  const StepRegistry::Membership joined = registry_.Join(manager, container);
  // The container of eager code has no number and is never emptied.
  if (!joined.is_in_container && container != nullptr && container->StepId() != 0) {
    Witness* witness = nullptr;
    ThrowIfError(container->LookupOrCreate<Witness>(ctx->resource_manager(), "sok_step", &witness,
                                                    [&](Witness** made) {
                                                      *made = new Witness(this, joined.step);
                                                      return absl::OkStatus();
                                                    }));
    witness->Unref();
  }
  if (!joined.is_first) return joined.step;
  Ref();  // until the manager calls back, once, at the latest when it is destroyed
  const auto forget = [this, manager] {
    registry_.Forget(manager);
    Unref();
  };
  if (!manager->RegisterCallback(manager->get_cancellation_token(), forget)) {
    forget();
    Throw(ErrorCode::kCancelled, "the step was cancelled before its first lookup");
  }
  return joined.step;
}

bool SessionSteps::Enter(tf::OpKernelContext* ctx, const std::vector<CollectiveId>& collectives,
                         GoOn go_on) {
  const int64_t step = StepOf(ctx);
  const std::string lookup = ctx->op_kernel().name();
  if (registry_.Enter(step, lookup, collectives)) return true;
  // Not on the thread that opens the gate, which may no longer exist when the op ends.
  const auto on_thread_of_step = [runner = ctx->runner(), go_on](const absl::Status& status) {
    if (runner == nullptr) return go_on(status);
    (*runner)([go_on, status] { go_on(status); });
  };
  const auto waiter =
      OpWaiter<>::Make(ctx->cancellation_manager(),
                       absl::CancelledError("the step ended while waiting for a checkpoint"),
                       on_thread_of_step);  // `ctx` may be destroyed from here on
  registry_.Await(step, lookup, collectives, [waiter] { waiter->Wake(absl::OkStatus()); });
  return false;
}

}  // namespace sok
