// SPDX-License-Identifier: Apache-2.0
// The op by which all ranks check that they were set up alike.
#include <cstring>
#include <memory>
#include <sstream>
#include <string>

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
    .Attr("seed_is_given: bool")
    .Attr("is_eager: bool = false")
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
      : ExchangeOp(ctx),
        seed_is_given_(Attribute<bool>(ctx, "seed_is_given")),
        is_eager_(Attribute<bool>(ctx, "is_eager")) {}

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const std::string text = Mine(ctx);
    const int num_ranks = CurrentCoordinator()->num_ranks();
    for (int rank = 0; rank < num_ranks; ++rank) {
      request->data.insert(request->data.end(), text.begin(), text.end());
      request->send_bytes.push_back(static_cast<int64_t>(text.size()));
    }
  }

  std::shared_ptr<const HeldTicket> TicketOf(tf::OpKernelContext* ctx) const override {
    return HeldTicket::Begin(ctx, name(), is_eager_);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const std::string mine = Mine(ctx).substr(sizeof(int64_t));
    size_t begin = 0;
    int64_t seed = 0;
    for (size_t rank = 0; rank < result.received_bytes.size(); ++rank) {
      const auto size = static_cast<size_t>(result.received_bytes[rank]);
      const std::string theirs(result.data.data() + begin, size);
      begin += size;
      if (rank == 0) std::memcpy(&seed, theirs.data(), sizeof(seed));
      CheckSame(mine, theirs.substr(sizeof(int64_t)), rank);
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

  static void CheckSame(const std::string& mine, const std::string& theirs, size_t rank) {
    std::istringstream my_lines(mine), their_lines(theirs);
    while (my_lines || their_lines) {
      const std::string my_line = NextLine(my_lines), their_line = NextLine(their_lines);
      if (my_line == their_line) continue;
      Throw(ErrorCode::kInvalidArgument, "the ranks disagree: this rank has '", my_line, "', rank ",
            rank, " has '", their_line,
            "'; all ranks must call sok.Init alike and make the same layers in the same order");
    }
  }

  static std::string NextLine(std::istringstream& lines) {
    std::string line;
    return std::getline(lines, line) ? line : "nothing more";
  }

  const bool seed_is_given_;
  const bool is_eager_;
};

REGISTER_KERNEL_BUILDER(Name("SokAgree").Device(tf::DEVICE_CPU), AgreeOp);
REGISTER_KERNEL_BUILDER(Name("SokAgree")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("signature")
                            .HostMemory("seed")
                            .HostMemory("status")
                            .HostMemory("agreed_seed"),
                        AgreeOp);

}  // namespace
}  // namespace sok
