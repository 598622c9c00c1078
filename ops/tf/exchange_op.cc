// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchange_op.h"

#include <memory>
#include <utility>

#include "ops/tf/border.h"

namespace sok {
namespace {

namespace tf = tensorflow;

absl::Status StatusOf(const ExchangeResult& result) {
  return ToStatus(Error(result.code, result.error));
}

}  // namespace

ExchangeOp::ExchangeOp(tf::OpKernelConstruction* ctx)
    : tf::AsyncOpKernel(ctx), exchange_(type_string()) {
  if (!ctx->HasAttr("occurrence")) return;
  const auto occurrence = Attribute<int64_t>(ctx, "occurrence");
  if (occurrence > 0) exchange_ += "_" + std::to_string(occurrence);
}

/// What an op has asked other ranks for.
struct ExchangeOp::Asked {
  tf::OpKernelContext* ctx;
  std::shared_ptr<const HeldTicket> held;
  CancelWatch watch;
  DoneCallback done;
  int64_t turn = 0;
};

void ExchangeOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<const HeldTicket> held;
  ExchangeRequest request;
  FailLookupOnThrow(ctx, nullptr, [&] {
    const tf::Tensor* tensor = nullptr;
    ThrowIfError(ctx->input("ticket", &tensor));
    held = TicketIn(*tensor);
  });
  if (held) FailLookupOnThrow(ctx, held.get(), [&] { Send(ctx, &request); });
  if (!ctx->status().ok()) {
    done();
    return;
  }
  Submit(std::shared_ptr<Asked>(new Asked{ctx, held, {ctx, held}, std::move(done)}),
         std::move(request));
}

void ExchangeOp::Submit(std::shared_ptr<Asked> asked, ExchangeRequest request) {
  request.kind = type_string();
  request.ticket = asked->held->ticket();
  request.exchange = exchange_;
  if (asked->turn > 0) request.exchange += " again " + std::to_string(asked->turn);
  request.step_id = StepIdOf(asked->ctx);
  const std::shared_ptr<Coordinator> coordinator = asked->held->shared_coordinator();
  request.done = [this, asked = std::move(asked)](const ExchangeResult& result) {
    Take(asked, result);
  };
  SubmitAndRun(*coordinator, std::move(request));  // the context may be gone when it returns
}

void ExchangeOp::Take(const std::shared_ptr<Asked>& asked, const ExchangeResult& result) {
  tf::OpKernelContext* const ctx = asked->ctx;
  ExchangeRequest next;
  bool goes_on = false;
  if (!result.error.empty()) {
    ctx->CtxFailure(StatusOf(result));
  } else {
    FailLookupOnThrow(ctx, asked->held.get(), [&] {
      if (asked->turn > 0) {
        ReceiveAgain(ctx, asked->turn, result);
      } else {
        Receive(ctx, result);
      }
      goes_on = SendAgain(ctx, asked->turn + 1, &next);
    });
  }
  if (goes_on && ctx->status().ok()) {
    ++asked->turn;  // elsewhere: the thread that is here drives a round
    const auto request = std::make_shared<ExchangeRequest>(std::move(next));
    (*ctx->runner())([this, asked, request] { Submit(asked, std::move(*request)); });
    return;
  }
  asked->watch.Stop();
  asked->done();
}

}  // namespace sok
