// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchange_op.h"

#include <exception>
#include <memory>
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "tensorflow/core/framework/cancellation.h"

namespace sok {
namespace {

namespace tf = tensorflow;

/// When another op of the step fails, or its time is over, no rank waits for the step any more.
tf::CancellationToken FailOnCancel(tf::OpKernelContext* ctx,
                                   const std::shared_ptr<const HeldTicket>& held) {
  tf::CancellationManager* manager = ctx->cancellation_manager();
  if (!manager) return tf::CancellationManager::kInvalidToken;
  const tf::CancellationToken token = manager->get_cancellation_token();
  const auto fail = [held, step_id = StepIdOf(ctx)] {
    const std::string message = "the step was cancelled, or another op of it failed";
    if (step_id) held->coordinator().FailStep(step_id, ErrorCode::kCancelled, message);
    held->coordinator().FailLookup(held->ticket(), ErrorCode::kCancelled, message);
  };
  if (!manager->RegisterCallback(token, fail)) fail();
  return token;
}

/// As FailStepOnThrow; what has thrown is part of the lookup of `held`. Nothing may pass: it would
/// end the thread of the exchanges.
template <typename Body>
void FailLookupOnThrow(tf::OpKernelContext* ctx, const HeldTicket* held, Body&& body) {
  FailStepOnThrow(ctx, [&] {
    try {
      body();
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      Throw(ErrorCode::kInvalidArgument, ctx->op_kernel().name(), ": ", error.what());
    }
  });
  if (held && !ctx->status().ok()) {
    held->coordinator().FailLookup(held->ticket(), CodeOf(ctx->status()),
                                   std::string(ctx->status().message()));
  }
}

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

std::shared_ptr<const HeldTicket> ExchangeOp::TicketOf(tf::OpKernelContext* ctx) const {
  const tf::Tensor* tensor = nullptr;
  ThrowIfError(ctx->input("ticket", &tensor));
  return TicketIn(*tensor);
}

void ExchangeOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<const HeldTicket> held;
  ExchangeRequest request;
  FailLookupOnThrow(ctx, nullptr, [&] { held = TicketOf(ctx); });
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
  const auto token = FailOnCancel(ctx, held);
  request.done = [this, ctx, done, token, held](ExchangeResult result) {
    if (ctx->cancellation_manager()) ctx->cancellation_manager()->DeregisterCallback(token);
    if (result.error.empty()) {
      FailLookupOnThrow(ctx, held.get(), [&] { Receive(ctx, result); });
    } else {
      ctx->CtxFailure(StatusOf(result));
    }
    done();
  };
  const std::shared_ptr<Coordinator> coordinator = held->shared_coordinator();
  coordinator->Submit(std::move(request));  // `ctx` may be gone when it returns
}

}  // namespace sok
