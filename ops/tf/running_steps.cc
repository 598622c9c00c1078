// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/running_steps.h"

#include <algorithm>
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
  explicit Step(std::shared_ptr<RunningSteps> steps) : steps_(std::move(steps)) {
    steps_->Begin(this);
  }
  ~Step() override { steps_->End(*this); }
  std::string DebugString() const override { return "a step that uses a table"; }

  // These need the mutex of RunningSteps.
  int64_t era = 0;
  int64_t number = 0;
  std::vector<int64_t> admitted;        // rows, ascending
  int64_t table = 0;                    // of the rows
  tf::core::RefCountPtr<Step> belongs;  // to this one, instead

 private:
  const std::shared_ptr<RunningSteps> steps_;
};

void RunningSteps::Note(tf::OpKernelContext* ctx) { NotedStepOf(ctx); }

int64_t RunningSteps::NumberOf(tf::OpKernelContext* ctx) {
  const auto step = NotedStepOf(ctx);
  return step == nullptr ? 0 : step->number;
}

tf::core::RefCountPtr<RunningSteps::Step> RunningSteps::NotedStepOf(tf::OpKernelContext* ctx) {
  tf::ScopedStepContainer* container = ctx->step_container();
  if (container == nullptr) {
    Begin();
    return nullptr;
  }
  Step* step = nullptr;
  ThrowIfError(
      container->LookupOrCreate<Step>(ctx->resource_manager(), name_, &step, [&](Step** made) {
        *made = new Step(shared_from_this());
        return absl::OkStatus();
      }));
  return tf::core::RefCountPtr<Step>(step);
}

void RunningSteps::Join(tf::OpKernelContext* ctx, int64_t number) {
  const auto step = NotedStepOf(ctx);
  if (step == nullptr || step->number == number) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = steps_.find(number);
  if (found == steps_.end()) return;
  found->second->Ref();
  step->belongs.reset(found->second);
}

/// nullptr: it is not noted, or has no container.
tf::core::RefCountPtr<RunningSteps::Step> RunningSteps::StepOf(tf::OpKernelContext* ctx) {
  Step* step = nullptr;
  if (ctx->step_container() == nullptr ||
      !ctx->step_container()->Lookup<Step>(ctx->resource_manager(), name_, &step).ok()) {
    return nullptr;
  }
  tf::core::RefCountPtr<Step> found(step);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (found->belongs == nullptr) return found;
  found->belongs->Ref();
  return tf::core::RefCountPtr<Step>(found->belongs.get());
}

int64_t RunningSteps::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++runs_[era_];
  return era_;
}

void RunningSteps::Begin(Step* step) {
  step->era = Begin();
  const std::lock_guard<std::mutex> lock(mutex_);
  step->number = ++last_number_;
  steps_[step->number] = step;
}

void RunningSteps::End(const Step& step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!step.admitted.empty()) --num_admitting_;
  steps_.erase(step.number);
  const auto run = runs_.find(step.era);
  if (--run->second == 0) runs_.erase(run);
}

void RunningSteps::Admitted(tf::OpKernelContext* ctx, std::vector<int64_t> rows) {
  const auto step = rows.empty() ? nullptr : StepOf(ctx);
  if (step == nullptr) return;
  std::sort(rows.begin(), rows.end());
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int64_t>& admitted = step->admitted;
  if (step->table != table_ && !admitted.empty()) {
    admitted.clear();
    --num_admitting_;
  }
  if (admitted.empty()) ++num_admitting_;
  step->table = table_;
  const auto middle = admitted.insert(admitted.end(), rows.begin(), rows.end());
  std::inplace_merge(admitted.begin(), middle, admitted.end());
}

void RunningSteps::HideAdmitted(tf::OpKernelContext* ctx, int64_t count, int64_t* row_ids) {
  const auto step = StepOf(ctx);
  if (step == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<int64_t>& admitted = step->admitted;
  if (admitted.empty() || step->table != table_) return;
  const int64_t first = admitted.front();
  const int64_t last = admitted.back();
  // Mostly: new rows follow each other.
  const bool are_all = last - first + 1 == static_cast<int64_t>(admitted.size());
  for (int64_t i = 0; i < count; ++i) {
    if (row_ids[i] < first || row_ids[i] > last) continue;
    if (are_all || std::binary_search(admitted.begin(), admitted.end(), row_ids[i])) {
      row_ids[i] = kNoRow;
    }
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
  ++table_;
}

}  // namespace sok
