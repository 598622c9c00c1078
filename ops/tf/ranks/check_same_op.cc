// SPDX-License-Identifier: Apache-2.0
// The op that checks that all ranks were set up alike.
#include <string>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/ranks/exchange_op.h"
#include "ops/tf/ranks/exchange_service.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokCheckSame")
    .Input("signature: string")
    .Input("collective: variant")
    .Output("status: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc("Fails on all ranks, naming the difference, unless all have the same signature lines.");

class CheckSameOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    request->outgoing = TextToAll(Input(ctx, "signature").scalar<tf::tstring>()(),
                                  static_cast<size_t>(CurrentCoordinator()->num_ranks()));
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const std::vector<std::string> signatures(result.parts.begin(), result.parts.end());
    const std::string difference = DifferenceOf(signatures);
    if (!difference.empty()) {
      Throw(ErrorCode::kInvalidArgument, "the ranks disagree: ", difference,
            "; all ranks must start with the same arguments and make the same tables in the same "
            "order");
    }
    Output(ctx, "status", {}).scalar<tf::tstring>()() = "OK";
  }
};

const RegisteredKernel kCheckSameKernels[] = {
    {"SokCheckSame", Make<CheckSameOp>, {"signature", "collective", "status"}},
};

}  // namespace
}  // namespace sok
