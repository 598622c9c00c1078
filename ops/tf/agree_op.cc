// SPDX-License-Identifier: Apache-2.0
// The op by which all ranks check that they were set up alike.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/border.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/exchange_service.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokAgree")
    .Input("signature: string")
    .Input("seed: int64")
    .Input("ticket: variant")
    .Attr("seed_is_given: bool")
    .Output("status: string")
    .Output("agreed_seed: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc(
        "Fails on all ranks, naming what differs, unless all have the same signature lines; a seed "
        "that was not given is rank 0's.");

class AgreeOp : public ExchangeOp {
 public:
  explicit AgreeOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx), seed_is_given_(Attribute<bool>(ctx, "seed_is_given")) {}

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const std::string text = Mine(ctx);
    const int num_ranks = CurrentCoordinator()->num_ranks();
    for (int rank = 0; rank < num_ranks; ++rank) {
      request->data.insert(request->data.end(), text.begin(), text.end());
      request->send_bytes.push_back(static_cast<int64_t>(text.size()));
    }
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    std::vector<std::string> signatures;
    size_t begin = 0;
    int64_t seed = 0;
    for (const int64_t size_bytes : result.received_bytes) {
      const std::string theirs(result.data.data() + begin, static_cast<size_t>(size_bytes));
      begin += theirs.size();
      if (signatures.empty()) std::memcpy(&seed, theirs.data(), sizeof(seed));
      signatures.push_back(theirs.substr(sizeof(seed)));
    }
    const std::string difference = DifferenceOf(signatures);
    if (!difference.empty()) {
      Throw(ErrorCode::kInvalidArgument, "the ranks disagree: ", difference,
            "; all ranks must call sok.Init alike and make the same layers in the same order");
    }
    Output(ctx, 0, {}).scalar<tf::tstring>()() = "OK";
    Output(ctx, 1, {}).scalar<int64_t>()() = seed;
  }

 private:
  /// The seed, then the signature; a seed that was given is part of the signature.
  std::string Mine(tf::OpKernelContext* ctx) const {
    const int64_t seed = ctx->input(1).scalar<int64_t>()();
    std::string text(reinterpret_cast<const char*>(&seed), sizeof(seed));
    text += "seed=" + (seed_is_given_ ? std::to_string(seed) : std::string("not given")) + "\n";
    return text + std::string(ctx->input(0).scalar<tf::tstring>()());
  }

  const bool seed_is_given_;
};

REGISTER_KERNEL_BUILDER(Name("SokAgree").Device(tf::DEVICE_CPU), AgreeOp);
REGISTER_KERNEL_BUILDER(Name("SokAgree")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("signature")
                            .HostMemory("seed")
                            .HostMemory("ticket")
                            .HostMemory("status")
                            .HostMemory("agreed_seed"),
                        AgreeOp);

}  // namespace
}  // namespace sok
