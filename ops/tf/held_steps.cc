// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/held_steps.h"

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/base/error.h"
#include "tensorflow/core/platform/logging.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenMeetings(10);
constexpr double kRestarts = 10;  // in the time that steps have to end

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
  const std::chrono::duration<double> most(most_seconds);
  const auto takes_too_long = [&] { return Clock::now() - began > most; };
  std::vector<std::string> texts;
  auto changed = began;  // when they were others
  while (true) {
    if (ctx->cancellation_manager() != nullptr && ctx->cancellation_manager()->IsCancelled())
      Throw(ErrorCode::kCancelled, "the checkpoint was cancelled before it began");
    const Report own{takes_too_long(), gate_->running()};
    const std::vector<std::string> before = std::exchange(texts, meeting.Share(own.ToText()));
    int64_t num_running = 0;
    bool gives_up = false;
    for (const std::string& text : texts) {
      const Report of_rank = Report::Of(text);
      gate_->LetBegin(of_rank.running.meetings);
      num_running += of_rank.running.num_steps;
      gives_up = gives_up || of_rank.gives_up;
    }
    if (gives_up) return false;
    if (num_running == 0) break;
    if (texts != before) changed = Clock::now();
    if (Clock::now() - changed > most / kRestarts) {
      // Those that have begun may wait for what is held, be it a part of them that looks like a
      // step of its own.
      gate_->LetAllBegin();
      changed = Clock::now();
    }
    if (own.running.num_steps > 0) {
      gate_->AwaitEnd(kBetweenMeetings);
    } else {
      std::this_thread::sleep_for(kBetweenMeetings);
    }
  }
  // What began here because another rank waited for it ends without others by now.
  while (!gate_->AwaitLast(kBetweenMeetings)) {
    if (takes_too_long()) return false;
  }
  return true;
}

}  // namespace sok
