// SPDX-License-Identifier: Apache-2.0
// Base class of ops that wait for other ranks.
#pragma once

#include <memory>
#include <string>

#include "ops/exchange/rendezvous/coordinator.h"
#include "ops/tf/ranks/collective_handle.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// An op whose second half runs when the exchange is complete, so that a step waits for other ranks
/// without blocking a thread. Ops of a lookup take its collective as the input "collective"; if one
/// lookup has several ops of a type, the attribute "occurrence" numbers them.
class ExchangeOp : public tf::AsyncOpKernel {
 public:
  explicit ExchangeOp(tf::OpKernelConstruction* ctx);

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  /// Fills the request's outgoing bytes.
  virtual void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) = 0;
  /// Sets the outputs that Send has not set.
  virtual void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) = 0;

 private:
  struct PendingExchange;

  void Finish(const std::shared_ptr<PendingExchange>& pending, const ExchangeResult& result);

  std::string exchange_;
};

}  // namespace sok
