// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/checkpoint_barrier.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/protocol/message_bytes.h"
#include "ops/tf/base/shared_variant.h"

namespace sok {
namespace {

using Clock = std::chrono::steady_clock;

// Steps that end sooner cost one agreement, plus the barrier.
constexpr std::chrono::milliseconds kBetweenAgreements(200);

/// One rank's report, or the reports of all ranks merged.
struct Report {
  bool is_late = false;
  StepRegistry::Cut begun;
  std::vector<std::string> running;

  std::string Serialize() const {
    MessageWriter writer;
    writer.Number(is_late ? 1 : 0);
    writer.Number(static_cast<int64_t>(begun.size()));
    for (const auto& [lookup_hash, number] : begun) {
      writer.Whole(static_cast<int64_t>(lookup_hash));
      writer.Number(number);
    }
    writer.Number(static_cast<int64_t>(running.size()));
    for (const std::string& step : running) writer.Text(step);
    return std::move(writer.bytes());
  }

  /// Merges another rank's report. `whose`: prefix of its steps, in messages.
  void Add(const std::string& message, const std::string& whose) {
    MessageReader reader(message);
    is_late = reader.Number() != 0 || is_late;
    for (size_t left = reader.Count(9); left > 0; --left) {  // at least nine bytes each
      const auto lookup_hash = static_cast<uint64_t>(reader.Whole());
      const int64_t number = reader.Number();
      int64_t& last = begun.try_emplace(lookup_hash, number).first->second;
      last = std::max(last, number);
    }
    for (size_t left = reader.Count(1); left > 0; --left)
      running.push_back(whose + std::string(reader.Text()));
  }
};

class Waits {
 public:
  Waits(tf::OpKernelContext* ctx, RankCommunicator& communicator, StepRegistry& registry,
        double most_seconds)
      : manager_(ctx->cancellation_manager()),
        communicator_(communicator),
        registry_(registry),
        most_(most_seconds) {}

  void Await() {
    for (Report all = Agreed(); !all.running.empty(); all = Agreed()) {
      if (all.is_late) ThrowLate(all.running);
      registry_.Raise(all.begun);
      registry_.AwaitChange(kBetweenAgreements);
    }
    // Steps that began here because another rank waited for them can now end without others.
    while (!registry_.EndCut(kBetweenAgreements)) {
      CheckNotCancelled();
      if (IsLate()) ThrowLate(registry_.Running());
    }
  }

 private:
  bool IsLate() const { return Clock::now() - began_ > most_; }

  Report Agreed() {
    CheckNotCancelled();
    const std::vector<std::string> reports =
        communicator_.Share(Report{IsLate(), registry_.Begun(), registry_.Running()}.Serialize());
    Report all;
    for (size_t rank = 0; rank < reports.size(); ++rank)
      all.Add(reports[rank], reports.size() > 1 ? "rank " + std::to_string(rank) + ": " : "");
    return all;
  }

  void CheckNotCancelled() const {
    if (manager_ != nullptr && manager_->IsCancelled())
      Throw(ErrorCode::kCancelled, "the checkpoint was cancelled before it began");
  }

  [[noreturn]] void ThrowLate(const std::vector<std::string>& running) const {
    std::string steps;
    for (const std::string& step : running) steps += (steps.empty() ? "" : "; ") + step;
    Throw(ErrorCode::kDeadlineExceeded,
          "no checkpoint was written, and an earlier one is unchanged: ",
          "steps that began before it have not ended after ", most_.count(),
          " s, SOK_STALL_TIMEOUT_SECONDS: ", steps,
          ". Save again when they have ended, or allow more time. A step must not wait for a later "
          "step, which the save holds back, nor for a rank whose thread is saving");
  }

  tf::CancellationManager* const manager_;
  RankCommunicator& communicator_;
  StepRegistry& registry_;
  const std::chrono::duration<double> most_;
  const Clock::time_point began_ = Clock::now();
};

}  // namespace

CheckpointBarrier::CheckpointBarrier(tf::OpKernelContext* ctx, RankCommunicator& communicator,
                                     double most_seconds)
    : steps_(SessionSteps::Of(ctx)) {
  const int64_t own_step = steps_->StepOf(ctx);
  communicator.Begin();  // running steps may have to continue until all ranks have arrived
  steps_->registry().Close(own_step);
  try {
    Waits(ctx, communicator, steps_->registry(), most_seconds).Await();
  } catch (...) {
    Release();
    throw;
  }
}

std::shared_ptr<CheckpointBarrier> BarrierIn(tf::OpKernelContext* ctx) {
  return SharedInput<CheckpointBarrier>(ctx, "steps", "SokHoldCheckpointBarrier");
}

void CheckpointBarrier::Release() {
  if (steps_ == nullptr) return;
  steps_->registry().Open();
  steps_.reset();
}

}  // namespace sok
