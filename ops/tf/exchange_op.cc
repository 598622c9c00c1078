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

void ExchangeOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<const HeldTicket> held;
  ExchangeRequest request;
  FailLookupOnThrow(ctx, nullptr, [&] {
    const tf::Tensor* tensor = nullptr;
    ThrowIfError(ctx->input("ticket", &tensor));
    held = TicketIn(*tensor);
  });
  if (held) {
    FailLookupOnThrow(ctx, held.get(), [&] {
      request.kind = type_string();
      request.ticket = held->ticket();
      request.exchange = exchange_;
      request.step_id = StepIdOf(ctx);
      Send(ctx, &request);
    });
  }
  if (!ctx->status().ok()) {
    done();
    return;
  }
  const auto watch = std::make_shared<CancelWatch>(ctx, held);
  request.done = [this, ctx, done, watch, held](ExchangeResult result) {
    watch->Stop();
    if (result.error.empty()) {
      FailLookupOnThrow(ctx, held.get(), [&] { Receive(ctx, result); });
    } else {
      ctx->CtxFailure(StatusOf(result));
    }
    done();
  };
  const std::shared_ptr<Coordinator> coordinator = held->shared_coordinator();
  SubmitAndRun(*coordinator, std::move(request));  // `ctx` may be gone when it returns
}

}  // namespace sok
