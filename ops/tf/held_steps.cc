// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/held_steps.h"

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "ops/base/error.h"
#include "tensorflow/core/platform/logging.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenMeetings(10);

/// What a rank tells the others.
struct Report {
  bool gives_up = false;
  StepGate::Running running;

  std::string ToText() const {
    std::ostringstream text;
    text << gives_up << ' ' << running.num_steps;
    for (const Meeting& each : running.meetings)
      text << ' ' << each.lookup_hash << ' ' << each.number;
    return text.str();
  }

  static Report Of(const std::string& text) {
    std::istringstream words(text);
    Report report;
    words >> report.gives_up >> report.running.num_steps;
    for (Meeting each; words >> each.lookup_hash >> each.number;)
      report.running.meetings.push_back(each);
    return report;
  }
};

}  // namespace

HeldSteps::HeldSteps(tf::OpKernelContext* ctx, RankMeeting& meeting, double most_seconds)
    : gate_(StepGate::OfSession(ctx)) {
  meeting.Begin();  // steps may have to go on until all ranks have come here
  gate_->Close(ctx);
  try {
    if (AwaitEndOnAllRanks(ctx, meeting, most_seconds)) return;
  } catch (...) {
    LetGo();
    throw;
  }
  LOG(ERROR) << "steps that run beside a save have not ended after " << most_seconds
             << " s, SOK_STALL_TIMEOUT_SECONDS: the checkpoint has what they have done to some "
                "tables and not to others";
}

void HeldSteps::LetGo() {
  if (gate_ == nullptr) return;
  gate_->Open();
  gate_.reset();
}

/// False: it takes too long.
bool HeldSteps::AwaitEndOnAllRanks(tf::OpKernelContext* ctx, RankMeeting& meeting,
                                   double most_seconds) {
  const auto began = Clock::now();
  const auto takes_too_long = [&] {
    return Clock::now() - began > std::chrono::duration<double>(most_seconds);
  };
  Report report;
  while (true) {
    if (ctx->cancellation_manager() != nullptr && ctx->cancellation_manager()->IsCancelled())
      Throw(ErrorCode::kCancelled, "the checkpoint was cancelled before it began");
    report.gives_up = takes_too_long();
    report.running = gate_->running();
    int64_t num_running = 0;
    bool gives_up = false;
    for (const std::string& text : meeting.Share(report.ToText())) {
      const Report of_rank = Report::Of(text);
      gate_->LetBegin(of_rank.running.meetings);
      num_running += of_rank.running.num_steps;
      gives_up = gives_up || of_rank.gives_up;
    }
    if (gives_up) return false;
    if (num_running == 0) break;
    gate_->AwaitEnd(kBetweenMeetings);
  }
  // What began here because another rank waited for it ends without others by now.
  while (!gate_->AwaitEnd(kBetweenMeetings)) {
    if (takes_too_long()) return false;
  }
  return true;
}

}  // namespace sok
