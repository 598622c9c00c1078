// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/running_steps.h"

#include <string>
#include <utility>

#include "ops/engine/table_options.h"
#include "ops/tf/border.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

namespace tf = tensorflow;

/// In the container of a step, which TensorFlow empties when the step has ended.
class RunningSteps::Step : public tf::ResourceBase {
 public:
  Step(std::shared_ptr<RunningSteps> steps, int64_t id)
      : steps_(std::move(steps)), era_(steps_->Begin()), id_(id) {}
  ~Step() override { steps_->End(era_, id_); }
  std::string DebugString() const override { return "a step that uses a table"; }

 private:
  const std::shared_ptr<RunningSteps> steps_;
  const int64_t era_;
  const int64_t id_;
};

void RunningSteps::Note(tf::OpKernelContext* ctx) {
  tf::ScopedStepContainer* container = ctx->step_container();
  if (container == nullptr) {
    Begin();
    return;
  }
  Step* step = nullptr;
  const std::string name =
      "sok_step_" + std::to_string(reinterpret_cast<uintptr_t>(this));  // one for each table
  ThrowIfError(
      container->LookupOrCreate<Step>(ctx->resource_manager(), name, &step, [&](Step** made) {
        *made = new Step(shared_from_this(), ctx->step_id());
        return absl::OkStatus();
      }));
  step->Unref();
}

int64_t RunningSteps::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++runs_[era_];
  return era_;
}

void RunningSteps::End(int64_t era, int64_t step_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  admitted_.erase(step_id);
  const auto run = runs_.find(era);
  if (--run->second == 0) runs_.erase(run);
}

void RunningSteps::Admitted(tf::OpKernelContext* ctx, const std::vector<int64_t>& rows) {
  if (ctx->step_container() == nullptr || rows.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  admitted_[ctx->step_id()].insert(rows.begin(), rows.end());
}

bool RunningSteps::HasAdmitted(tf::OpKernelContext* ctx) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return admitted_.count(ctx->step_id()) > 0;
}

void RunningSteps::HideAdmitted(tf::OpKernelContext* ctx, int64_t count, int64_t* row_ids) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto rows = admitted_.find(ctx->step_id());
  if (rows == admitted_.end()) return;
  for (int64_t i = 0; i < count; ++i) {
    if (rows->second.count(row_ids[i]) > 0) row_ids[i] = kNoRow;
  }
}

void RunningSteps::Evicted(int64_t num_rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rows_.push_back({era_++, num_rows});
}

int64_t RunningSteps::NumReturnable() {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t count = 0;
  for (const EvictedRows& rows : rows_) {
    if (!runs_.empty() && runs_.begin()->first <= rows.era) break;
    count += rows.count;
  }
  return count;
}

void RunningSteps::Returned(int64_t num_rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (num_rows > 0) {
    num_rows -= rows_.front().count;
    rows_.pop_front();
  }
}

void RunningSteps::ForgetRows() {
  const std::lock_guard<std::mutex> lock(mutex_);
  rows_.clear();
  admitted_.clear();
}

}  // namespace sok
