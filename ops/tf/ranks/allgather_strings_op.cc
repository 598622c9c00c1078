// SPDX-License-Identifier: Apache-2.0
// The op by which ranks exchange strings, to report state and to agree on decisions.
#include <string>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/ranks/exchange_op.h"
#include "ops/tf/ranks/exchange_service.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokAllgatherStrings")
    .Input("text: string")
    .Input("collective: variant")
    .Attr("is_patient: bool = false")
    .Output("texts: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc(
        "The scalar `text` of each rank, [number of ranks], on all ranks. If `is_patient`, ranks "
        "wait for each other without the time limit of a lookup.");

class AllgatherStringsOp : public ExchangeOp {
 public:
  explicit AllgatherStringsOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx), is_patient_(Attribute<bool>(ctx, "is_patient")) {}

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const std::string text(Input(ctx, "text").scalar<tf::tstring>()());
    const int num_ranks = CurrentCoordinator()->num_ranks();
    request->is_patient = is_patient_;
    for (int rank = 0; rank < num_ranks; ++rank) {
      request->data.insert(request->data.end(), text.begin(), text.end());
      request->send_bytes.push_back(static_cast<int64_t>(text.size()));
    }
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const auto num_ranks = static_cast<int64_t>(result.parts.size());
    auto texts = Output(ctx, "texts", {num_ranks}).flat<tf::tstring>();
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      const std::string_view text = result.parts[static_cast<size_t>(rank)];
      texts(rank) = tf::tstring(text.data(), text.size());
    }
  }

 private:
  const bool is_patient_;
};

SOK_REGISTER_KERNEL(
    Name("SokAllgatherStrings").HostMemory("text").HostMemory("collective").HostMemory("texts"),
    AllgatherStringsOp);

}  // namespace
}  // namespace sok
