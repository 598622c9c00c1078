// SPDX-License-Identifier: Apache-2.0
// Tickets of lookups as tensors: what the exchanges of one lookup have in common, from the forward
// pass to the backward pass, which in eager code and functions are calls of their own.
#ifndef SOK_OPS_TF_LOOKUP_TICKET_H_
#define SOK_OPS_TF_LOOKUP_TICKET_H_

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "ops/exchange/coordinator.h"
#include "ops/tf/exchange_service.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// A ticket that ends with the last who holds it: then no op can ask for an exchange any more.
class HeldTicket {
 public:
  HeldTicket(std::shared_ptr<Coordinator> coordinator, Ticket ticket);
  /// Of lookups that exchange together; holds theirs. `ticket`: of all of them.
  HeldTicket(std::vector<std::shared_ptr<const HeldTicket>> joined, Ticket ticket);
  ~HeldTicket();
  HeldTicket(const HeldTicket&) = delete;
  HeldTicket& operator=(const HeldTicket&) = delete;

  Coordinator& coordinator() const { return *coordinator_; }
  const std::shared_ptr<Coordinator>& shared_coordinator() const { return coordinator_; }
  const Ticket& ticket() const { return ticket_; }

 private:
  const std::shared_ptr<Coordinator> coordinator_;
  const Ticket ticket_;
  const std::vector<std::shared_ptr<const HeldTicket>> joined_;
};

/// The ticket in a scalar variant tensor.
std::shared_ptr<const HeldTicket> TicketIn(const tensorflow::Tensor& tensor);

/// While it lives: when another op of the step fails, or its time is over, no rank waits for the
/// lookup any more.
class CancelWatch {
 public:
  CancelWatch(tensorflow::OpKernelContext* ctx, const std::shared_ptr<const HeldTicket>& held);
  ~CancelWatch() { Stop(); }
  CancelWatch(const CancelWatch&) = delete;
  CancelWatch& operator=(const CancelWatch&) = delete;

  void Stop();

 private:
  tensorflow::CancellationManager* manager_;  // null: nothing to watch
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
};

/// As FailStepOnThrow; what has thrown is part of the lookup of `held`, if there is one. Nothing
/// may pass: it would end the thread of the exchanges.
template <typename Body>
void FailLookupOnThrow(tensorflow::OpKernelContext* ctx, const HeldTicket* held, Body&& body) {
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

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_TICKET_H_
