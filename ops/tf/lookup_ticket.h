// SPDX-License-Identifier: Apache-2.0
// Tickets of lookups as tensors: what the exchanges of one lookup have in common, from the forward
// pass to the backward pass, which in eager code and functions are calls of their own.
#ifndef SOK_OPS_TF_LOOKUP_TICKET_H_
#define SOK_OPS_TF_LOOKUP_TICKET_H_

#include <memory>
#include <string>

#include "ops/exchange/coordinator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// A ticket that ends with the last who holds it: then no op can ask for an exchange any more.
class HeldTicket {
 public:
  /// Begins `lookup` in the step of `ctx`, or, in eager code, as a call of its own.
  static std::shared_ptr<const HeldTicket> Begin(tensorflow::OpKernelContext* ctx,
                                                 const std::string& lookup, bool is_eager);
  HeldTicket(std::shared_ptr<Coordinator> coordinator, Ticket ticket);
  ~HeldTicket();
  HeldTicket(const HeldTicket&) = delete;
  HeldTicket& operator=(const HeldTicket&) = delete;

  Coordinator& coordinator() const { return *coordinator_; }
  const std::shared_ptr<Coordinator>& shared_coordinator() const { return coordinator_; }
  const Ticket& ticket() const { return ticket_; }

 private:
  const std::shared_ptr<Coordinator> coordinator_;
  const Ticket ticket_;
};

/// The ticket in a scalar variant tensor.
std::shared_ptr<const HeldTicket> TicketIn(const tensorflow::Tensor& tensor);

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_TICKET_H_
