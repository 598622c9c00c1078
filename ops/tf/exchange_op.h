// SPDX-License-Identifier: Apache-2.0
// What all ops that wait for other ranks have in common.
#ifndef SOK_OPS_TF_EXCHANGE_OP_H_
#define SOK_OPS_TF_EXCHANGE_OP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/exchange/coordinator.h"
#include "ops/tf/lookup_ticket.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// An op whose second half runs when the exchange has come back. A step waits for other ranks
/// without holding a thread. Ops of a lookup have its ticket as the input "ticket"; where one
/// lookup has several ops of a type, the attribute "occurrence" numbers them.
class ExchangeOp : public tensorflow::AsyncOpKernel {
 public:
  explicit ExchangeOp(tensorflow::OpKernelConstruction* ctx);

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  /// Fills the request's data, or pieces, and send_bytes.
  virtual void Send(tensorflow::OpKernelContext* ctx, ExchangeRequest* request) = 0;
  /// Makes the outputs that Send has not made.
  virtual void Receive(tensorflow::OpKernelContext* ctx, const ExchangeResult& result) = 0;

  /// After exchange number `turn` - 1, counted from 0: false, or true where there is one more to
  /// make, whose request it fills as Send does. ReceiveAgain then takes what came.
  virtual bool SendAgain(tensorflow::OpKernelContext*, int64_t /*turn*/, ExchangeRequest*) {
    return false;
  }
  virtual void ReceiveAgain(tensorflow::OpKernelContext*, int64_t /*turn*/, const ExchangeResult&) {
  }

 private:
  struct Asked;

  void Submit(std::shared_ptr<Asked> asked, ExchangeRequest request);
  void Take(const std::shared_ptr<Asked>& asked, const ExchangeResult& result);

  std::string exchange_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_EXCHANGE_OP_H_
