// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/rank_meeting.h"

#include <future>
#include <utility>

#include "ops/base/error.h"
#include "ops/tf/exchange_service.h"

namespace sok {

RankMeeting::RankMeeting(tensorflow::OpKernelContext* ctx, const TableOptions& options,
                         bool is_eager)
    : step_id_(StepIdOf(ctx)),
      num_ranks_(options.placement.num_ranks),
      held_(num_ranks_ > 1 && CurrentCoordinator()
                ? HeldTicket::Begin(ctx, ctx->op_kernel().name() + " of " + options.name, is_eager)
                : nullptr) {}

ExchangeResult RankMeeting::Exchange(std::vector<char> data, std::vector<int64_t> send_bytes) {
  if (!held_) {
    Throw(ErrorCode::kFailedPrecondition,
          "the table is shared with other ranks, which this process has not been connected to");
  }
  ExchangeRequest request;
  request.data = std::move(data);
  request.send_bytes = std::move(send_bytes);
  request.is_patient = true;
  return Submit(std::move(request));
}

void RankMeeting::Meet(bool is_patient) {
  if (!held_) return;
  ExchangeRequest request;
  request.send_bytes.resize(static_cast<size_t>(num_ranks_), 0);
  request.is_patient = is_patient;
  Submit(std::move(request));
}

ExchangeResult RankMeeting::Submit(ExchangeRequest request) {
  std::promise<ExchangeResult> promise;
  request.kind = "meeting";
  request.ticket = held_->ticket();
  request.exchange = "part_" + std::to_string(num_exchanges_++);
  request.step_id = step_id_;
  request.done = [&promise](ExchangeResult result) { promise.set_value(std::move(result)); };
  held_->coordinator().Submit(std::move(request));
  ExchangeResult result = promise.get_future().get();
  if (!result.error.empty()) Throw(result.code, result.error);
  return result;
}

}  // namespace sok
