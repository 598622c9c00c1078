// SPDX-License-Identifier: Apache-2.0
// The op by which ranks exchange strings: their state, decisions, and tensors in MPI's jobs.
#include <string>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/ranks/exchange_op.h"
#include "ops/tf/ranks/exchange_service.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokExchangeStrings")
    .Input("sent: string")
    .Input("collective: variant")
    .Attr("is_patient: bool = false")
    .Attr("ends_session: bool = false")
    .Output("received: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc(
        "Sends each rank a string, `sent` [number of ranks] or a scalar for all; `received` "
        "[number of ranks] are those from each rank. If `is_patient`, ranks wait for each other "
        "without the time limit of a lookup. If `ends_session`, this rank's session of the "
        "collective's graph runs no further step.");

class ExchangeStringsOp : public ExchangeOp {
 public:
  explicit ExchangeStringsOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx),
        is_patient_(Attribute<bool>(ctx, "is_patient")),
        ends_session_(Attribute<bool>(ctx, "ends_session")) {}

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& sent = Input(ctx, "sent");
    const auto texts = sent.flat<tf::tstring>();
    const int num_ranks = CurrentCoordinator()->num_ranks();
    if (sent.dims() > 0 && texts.size() != num_ranks) {
      Throw(ErrorCode::kInvalidArgument, "sent has ", texts.size(), " strings for ", num_ranks,
            " ranks: give it one for each rank, or a scalar for all");
    }
    request->is_patient = is_patient_;
    request->ends_session = ends_session_;
    request->outgoing = sent.dims() == 0 ? TextToAll(texts(0), static_cast<size_t>(num_ranks))
                                         : TextsByRank({texts.data(), texts.data() + texts.size()});
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const auto num_ranks = static_cast<int64_t>(result.parts.size());
    auto received = Output(ctx, "received", {num_ranks}).flat<tf::tstring>();
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      const std::string_view text = result.parts[static_cast<size_t>(rank)];
      received(rank) = tf::tstring(text.data(), text.size());
    }
  }

 private:
  const bool is_patient_;
  const bool ends_session_;
};

const RegisteredKernel kExchangeStringsKernels[] = {
    {"SokExchangeStrings", Make<ExchangeStringsOp>, {"sent", "collective", "received"}},
};

}  // namespace
}  // namespace sok
