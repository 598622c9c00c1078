// SPDX-License-Identifier: Apache-2.0
// The sums over ranks that hvd.allreduce asks for, made with the exchanges of the tables.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/exchange/all_reduce.h"
#include "ops/tf/engine_of_op.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/output_shapes.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokAllReduce")
    .Input("tensors: N * float")
    .Input("ticket: variant")
    .Attr("N: int >= 1")
    .Attr("is_mean: bool")
    .Attr("prescale_factor: float = 1.0")
    .Attr("postscale_factor: float = 1.0")
    .Output("sums: N * float")  // not stateful: functions would run one after the other
    .SetShapeFn(ShapesOfInputs)
    .Doc(
        "The sum, or mean, over ranks of each tensor, which has one shape on all of them: as "
        "HorovodAllreduce, in whose place it is put when a step is made (ops/tf/all_reduces.h). "
        "Added in the order of ranks, so that all ranks get the same.");

// Of what the tensors are put into, one after the other: it begins with what must be the same on
// all ranks, and each tensor stands where TensorFlow wants it to.
constexpr size_t kAlignedFloats = 16;
constexpr size_t kHeadFloats = kAlignedFloats;
constexpr size_t kHeadBytes = kHeadFloats * sizeof(float);

/// What is longer is summed in pieces, one after the other, which stay in the caches.
constexpr size_t kPieceFloats = size_t{1} << 19;

/// Up to so many floats, or between two ranks, each sends the others all that it has. Else it adds
/// up a share of each piece for all, so that what it sends does not grow with the ranks.
constexpr size_t kMostDirectFloats = 4096;

size_t Aligned(int64_t num_floats) {
  return (static_cast<size_t>(num_floats) + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats;
}

/// The ranks, and what of the tensors is whose. A piece takes one exchange, or two: of values, and
/// of sums.
struct Shares {
  size_t num_ranks;
  size_t own_rank;
  size_t num_floats;
  bool is_direct;

  size_t num_trips() const { return is_direct ? 1 : 2; }
  bool IsOfSums(size_t turn) const { return turn % num_trips() == 1; }
  bool IsOver(size_t turn) const { return turn / num_trips() * kPieceFloats >= num_floats; }

  /// Of the piece of an exchange, what a rank adds up.
  FloatRange Of(size_t rank, size_t turn) const {
    const size_t begin = turn / num_trips() * kPieceFloats;
    const size_t size = std::min(kPieceFloats, num_floats - begin);
    if (is_direct) return {begin, size};
    const FloatRange share = ShareOf(rank, num_ranks, size);
    return {begin + share.begin, share.size};
  }
};

class AllReduceOp : public ExchangeOp {
 public:
  explicit AllReduceOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx),
        num_tensors_(static_cast<int>(Attribute<int64_t>(ctx, "N"))),
        is_mean_(Attribute<bool>(ctx, "is_mean")),
        prescale_factor_(Attribute<float>(ctx, "prescale_factor")),
        postscale_factor_(Attribute<float>(ctx, "postscale_factor")) {}

 protected:
  /// The outputs are the memory that is sent, and become the sums.
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const Shares shares = SharesOf(ctx);
    const tf::Tensor all = Put(ctx, shares.num_floats);
    SendPiece(shares, 0, all, Data<float>(all) + kHeadFloats, request);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const Shares shares = SharesOf(ctx);
    if (shares.num_floats == 0) return;
    const FloatRange share = shares.Of(shares.own_rank, 0);
    float* const sums = Sums(ctx);
    std::vector<std::string_view> parts = result.parts;
    for (size_t rank = 0; rank < shares.num_ranks; ++rank) {
      if (rank == shares.own_rank) continue;
      const bool is_alike = parts[rank].size() == kHeadBytes + share.size * sizeof(float) &&
                            std::memcmp(parts[rank].data(), sums - kHeadFloats, kHeadBytes) == 0;
      if (!is_alike) ThrowForShapes(ctx, rank);
      parts[rank].remove_prefix(kHeadBytes);
    }
    Add(shares, share, parts, sums);
  }

  bool SendAgain(tf::OpKernelContext* ctx, int64_t turn, ExchangeRequest* request) override {
    const Shares shares = SharesOf(ctx);
    const auto number = static_cast<size_t>(turn);
    if (shares.IsOver(number)) return false;
    SendPiece(shares, number, FirstOutput(ctx), Sums(ctx), request);
    return true;
  }

  void ReceiveAgain(tf::OpKernelContext* ctx, int64_t turn, const ExchangeResult& result) override {
    const Shares shares = SharesOf(ctx);
    const auto number = static_cast<size_t>(turn);
    float* const sums = Sums(ctx);
    if (!shares.IsOfSums(number)) {
      Add(shares, shares.Of(shares.own_rank, number), result.parts, sums);
      return;
    }
    for (size_t rank = 0; rank < shares.num_ranks; ++rank) {
      const std::string_view part = result.parts[rank];
      if (rank != shares.own_rank)
        std::memcpy(sums + shares.Of(rank, number).begin, part.data(), part.size());
    }
  }

 private:
  /// values: where the tensors stand, in `memory`, behind the head, which goes with the first
  /// piece.
  static void SendPiece(const Shares& shares, size_t turn, const tf::Tensor& memory,
                        const float* values, ExchangeRequest* request) {
    const size_t head_bytes = turn == 0 ? kHeadBytes : 0;
    const auto* const bytes_of_values = reinterpret_cast<const char*>(values);
    for (size_t rank = 0; rank < shares.num_ranks; ++rank) {
      const FloatRange share = shares.Of(shares.IsOfSums(turn) ? shares.own_rank : rank, turn);
      const bool travels = rank != shares.own_rank && share.size > 0;
      const size_t bytes = share.size * sizeof(float);
      request->send_bytes.push_back(travels ? static_cast<int64_t>(head_bytes + bytes) : 0);
      if (!travels) continue;
      if (head_bytes > 0) request->pieces.emplace_back(bytes_of_values - head_bytes, head_bytes);
      request->pieces.emplace_back(bytes_of_values + share.begin * sizeof(float), bytes);
    }
    request->memory = std::make_shared<tf::Tensor>(memory);
    request->is_of_tables = false;
  }

  void Add(const Shares& shares, const FloatRange& share,
           const std::vector<std::string_view>& parts, float* sums) const {
    SumFactors factors{prescale_factor_, postscale_factor_};
    if (is_mean_) factors.of_sum /= static_cast<float>(shares.num_ranks);
    SumOverRanks(parts, shares.own_rank, factors, sums + share.begin, share.size);
  }

  Shares SharesOf(tf::OpKernelContext* ctx) const {
    size_t num_floats = 0;
    for (int i = 0; i < num_tensors_; ++i) num_floats += Aligned(ctx->input(i).NumElements());
    const tf::Tensor* ticket = nullptr;
    ThrowIfError(ctx->input("ticket", &ticket));
    const Coordinator& coordinator = TicketIn(*ticket)->coordinator();
    const auto num_ranks = static_cast<size_t>(coordinator.num_ranks());
    return {num_ranks, static_cast<size_t>(coordinator.rank()), num_floats,
            num_ranks == 2 || num_floats <= kMostDirectFloats};
  }

  /// Puts the tensors into one, of which the outputs become parts.
  tf::Tensor Put(tf::OpKernelContext* ctx, size_t num_floats) const {
    tf::Tensor all;
    const auto total = static_cast<int64_t>(kHeadFloats + num_floats);
    tf::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    ThrowIfError(ctx->allocate_temp(tf::DT_FLOAT, {total}, &all, on_host));
    std::memset(Data<float>(all), 0, kHeadBytes);
    const uint64_t shapes = NameHash(ShapesOf(ctx));
    std::memcpy(Data<float>(all), &shapes, sizeof(shapes));
    size_t begin = kHeadFloats;
    for (int i = 0; i < num_tensors_; ++i) {
      const tf::Tensor& tensor = ctx->input(i);
      const int64_t count = tensor.NumElements();
      const size_t end = begin + Aligned(count);
      float* const values = Data<float>(all) + begin;
      std::copy_n(Data<float>(tensor), count, values);
      std::fill(values + count, Data<float>(all) + end, 0.0F);
      const auto first = static_cast<int64_t>(begin);
      tf::Tensor sum;
      if (!sum.CopyFrom(all.Slice(first, first + count), tensor.shape())) {
        Throw(ErrorCode::kInvalidArgument, name(), ": cannot hold ", tensor.shape().DebugString());
      }
      ctx->set_output(i, sum);
      begin = end;
    }
    return all;
  }

  /// Where the tensors stand: the first that is not empty. There is one.
  static tf::Tensor& FirstOutput(tf::OpKernelContext* ctx) {
    int first = 0;
    while (ctx->mutable_output(first)->NumElements() == 0) ++first;
    return *ctx->mutable_output(first);
  }
  static float* Sums(tf::OpKernelContext* ctx) { return Data<float>(FirstOutput(ctx)); }

  std::string ShapesOf(tf::OpKernelContext* ctx) const {
    std::string shapes;
    for (int i = 0; i < num_tensors_; ++i) shapes += " " + ctx->input(i).shape().DebugString();
    return shapes;
  }

  [[noreturn]] void ThrowForShapes(tf::OpKernelContext* ctx, size_t rank) const {
    Throw(ErrorCode::kInvalidArgument, name(), ": a tensor that hvd.allreduce sums must have one ",
          "shape on all ranks; rank ", rank, " has others than those of this rank:", ShapesOf(ctx));
  }

  const int num_tensors_;
  const bool is_mean_;
  const float prescale_factor_;
  const float postscale_factor_;
};

SOK_REGISTER_KERNEL(
    Name("SokAllReduce").HostMemory("tensors").HostMemory("ticket").HostMemory("sums"),
    AllReduceOp);

}  // namespace
}  // namespace sok
