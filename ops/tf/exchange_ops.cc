// SPDX-License-Identifier: Apache-2.0
// Ops that carry keys to the ranks that own them, rows back, and gradients to the owners. All are
// asynchronous: a step waits for other ranks without holding a thread.
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ops/lookup/pool_rows.h"
#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/row_pointers.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

absl::Status AllVectors(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i)
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

absl::Status OneMatrix(InferenceContext* c) {
  c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

REGISTER_OP("SokExchangeKeys")
    .Input("keys: int64")
    .Attr("num_ranks: int >= 1")
    .Attr("key_bytes: int >= 4")
    .Output("received_keys: int64")
    .Output("received_counts: int64")
    .Output("send_order: int32")
    .Output("send_counts: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "Sends each key to its owner, rank floormod(key, num_ranks). received_counts and "
        "send_counts are [num_ranks]; "
        "send_order[i] is the place in `keys` of the i-th key sent.");

REGISTER_OP("SokExchangeRows")
    .Input("rows: resource")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("row_ids: int64")
    .Input("absent_rows: float")
    .Input("inverse: int32")
    .Input("received_counts: int64")
    .Input("send_order: int32")
    .Input("send_counts: int64")
    .Attr("dim: int >= 1")
    .Attr("all_keys_have_rows: bool")
    .Output("output: float")
    .SetIsStateful()
    .SetShapeFn(OneMatrix)
    .Doc(
        "Answers the keys that were received with their rows. Gives the rows [number of keys sent, "
        "dim] of the keys "
        "that this rank asked for, in the order in which SokExchangeKeys had them. `keys` are the "
        "distinct keys "
        "received, with their row_ids, and `inverse` gives each received key's place among them.");

REGISTER_OP("SokExchangeGradients")
    .Input("gradients: float")
    .Input("received_counts: int64")
    .Input("send_order: int32")
    .Input("send_counts: int64")
    .Output("received: float")
    .SetIsStateful()
    .SetShapeFn(OneMatrix)
    .Doc(
        "Sends the gradient of each key's row the way the key went; gives those of the keys that "
        "were received.");

REGISTER_OP("SokAgree")
    .Input("signature: string")
    .Input("seed: int64")
    .Attr("seed_is_given: bool")
    .Output("status: string")
    .Output("agreed_seed: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc(
        "Fails on all ranks, naming what differs, unless all have the same signature lines; a seed "
        "that was not given "
        "is rank 0's.");

/// An op whose second half runs when the exchange has come back.
class ExchangeOp : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
    ExchangeRequest request;
    FailStepOnThrow(ctx, [&] {
      if (!coordinator) {
        Throw(ErrorCode::kFailedPrecondition, name(),
              ": run what sok.Init returned in this process first");
      }
      request.kind = type_string();
      request.name = name();
      request.step_id = ctx->step_id();
      Send(ctx, &request);
    });
    if (!ctx->status().ok()) {
      done();
      return;
    }
    const auto token = FailStepOnCancel(ctx, coordinator);
    request.done = [this, ctx, done, token](ExchangeResult result) {
      if (ctx->cancellation_manager()) ctx->cancellation_manager()->DeregisterCallback(token);
      if (result.error.empty()) {
        FailStepOnThrow(ctx, [&] { Receive(ctx, result); });
      } else {
        ctx->CtxFailure(absl::AbortedError(result.error));
      }
      done();
    };
    coordinator->Submit(std::move(request));  // `ctx` may be gone when it returns
  }

 private:
  /// When another op of the step fails, or its time is over, no rank waits for the step any more.
  static tf::CancellationToken FailStepOnCancel(tf::OpKernelContext* ctx,
                                                const std::shared_ptr<Coordinator>& coordinator) {
    tf::CancellationManager* manager = ctx->cancellation_manager();
    if (!manager) return tf::CancellationManager::kInvalidToken;
    const tf::CancellationToken token = manager->get_cancellation_token();
    const int64_t step_id = ctx->step_id();
    const auto fail_step = [coordinator, step_id] {
      coordinator->FailStep(step_id, "the step was cancelled, or another op of it failed");
    };
    if (!manager->RegisterCallback(token, fail_step)) fail_step();
    return token;
  }

 protected:
  /// Fills the request's data and send_bytes.
  virtual void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) = 0;
  /// Makes the outputs.
  virtual void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) = 0;
};

std::vector<int64_t> Scaled(const tf::Tensor& counts, int64_t factor) {
  std::vector<int64_t> scaled(Data<int64_t>(counts), Data<int64_t>(counts) + counts.NumElements());
  for (int64_t& count : scaled) count *= factor;
  return scaled;
}

class ExchangeKeysOp : public ExchangeOp {
 public:
  explicit ExchangeKeysOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx),
        num_ranks_(Attribute<int64_t>(ctx, "num_ranks")),
        key_bytes_(static_cast<size_t>(Attribute<int64_t>(ctx, "key_bytes"))) {}

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& keys_input = InputOfRank(ctx, 0, "keys", 1);
    const int64_t* keys = Data<int64_t>(keys_input);
    const int64_t num_keys = keys_input.NumElements();
    int32_t* send_order = Data<int32_t>(Output(ctx, 2, {num_keys}));
    int64_t* send_counts = Data<int64_t>(Output(ctx, 3, {num_ranks_}));
    std::vector<int64_t> cursor(static_cast<size_t>(num_ranks_) + 1, 0);
    for (int64_t i = 0; i < num_keys; ++i) ++cursor[Owner(keys[i]) + 1];
    for (size_t rank = 0; rank < static_cast<size_t>(num_ranks_); ++rank) {
      send_counts[rank] = cursor[rank + 1];
      request->send_bytes.push_back(cursor[rank + 1] * static_cast<int64_t>(key_bytes_));
      cursor[rank + 1] += cursor[rank];
    }
    request->data.resize(static_cast<size_t>(num_keys) * key_bytes_);
    for (int64_t i = 0; i < num_keys; ++i) {
      const int64_t place = cursor[Owner(keys[i])]++;
      send_order[place] = static_cast<int32_t>(i);
      std::memcpy(request->data.data() + static_cast<size_t>(place) * key_bytes_, &keys[i],
                  key_bytes_);
    }
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const auto num_keys = static_cast<int64_t>(result.data.size() / key_bytes_);
    int64_t* keys = Data<int64_t>(Output(ctx, 0, {num_keys}));
    for (int64_t i = 0; i < num_keys; ++i) {
      keys[i] = 0;  // uint32 keys travel as their low four bytes
      std::memcpy(&keys[i], result.data.data() + static_cast<size_t>(i) * key_bytes_, key_bytes_);
    }
    int64_t* counts = Data<int64_t>(Output(ctx, 1, {num_ranks_}));
    for (const int64_t bytes : result.received_bytes)
      *counts++ = bytes / static_cast<int64_t>(key_bytes_);
  }

 private:
  size_t Owner(int64_t key) const {
    const int64_t remainder = key % num_ranks_;
    return static_cast<size_t>(remainder < 0 ? remainder + num_ranks_ : remainder);
  }

  const int64_t num_ranks_;
  const size_t key_bytes_;
};

class ExchangeRowsOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const auto variable = LookupVariable(ctx, 0);
    const std::shared_ptr<Table> table = LookupTable(ctx, 1)->table();
    const TableOptions& options = table->options();
    const tf::Tensor& row_ids = InputOfRank(ctx, 3, "row_ids", 1);
    const tf::Tensor& inverse = InputOfRank(ctx, 5, "inverse", 1);
    const int64_t row_bytes = options.dim * static_cast<int64_t>(sizeof(float));
    request->send_bytes = Scaled(ctx->input(6), row_bytes);
    request->data.resize(static_cast<size_t>(inverse.NumElements() * row_bytes));
    Bags bags;
    bags.num_keys = bags.num_bags = inverse.NumElements();
    bags.num_distinct = row_ids.NumElements();
    bags.inverse = Data<int32_t>(inverse);
    OpExecutor executor(ctx);
    SharedLocks locks({variable.get()});
    const RowPointers pointers(*table, PlaneData(variable.get(), options.capacity, options.dim),
                               InputOfRank(ctx, 2, "keys", 1), row_ids,
                               InputOfRank(ctx, 4, "absent_rows", 2));
    PoolRows(executor, bags, options.dim, pointers.data(),
             reinterpret_cast<float*>(request->data.data()));
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const tf::Tensor& send_order = InputOfRank(ctx, 7, "send_order", 1);
    const int64_t num_rows = send_order.NumElements();
    const int64_t dim = LookupTable(ctx, 1)->table()->options().dim;
    const size_t row_bytes = static_cast<size_t>(dim) * sizeof(float);
    if (result.data.size() != static_cast<size_t>(num_rows) * row_bytes) {
      Throw(ErrorCode::kInvalidArgument, name(), ": ", num_rows, " rows of ", dim,
            " floats expected, got ", result.data.size(),
            " bytes; do all ranks run the same layers?");
    }
    float* rows = Data<float>(Output(ctx, 0, {num_rows, dim}));
    const int32_t* order = Data<int32_t>(send_order);
    for (int64_t i = 0; i < num_rows; ++i) {
      std::memcpy(rows + order[i] * dim, result.data.data() + static_cast<size_t>(i) * row_bytes,
                  row_bytes);
    }
  }
};

class ExchangeGradientsOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& gradients = InputOfRank(ctx, 0, "gradients", 2);
    const tf::Tensor& send_order = InputOfRank(ctx, 2, "send_order", 1);
    const int64_t dim = gradients.dim_size(1);
    const size_t row_bytes = static_cast<size_t>(dim) * sizeof(float);
    request->send_bytes = Scaled(ctx->input(3), static_cast<int64_t>(row_bytes));
    request->data.resize(static_cast<size_t>(send_order.NumElements()) * row_bytes);
    const int32_t* order = Data<int32_t>(send_order);
    for (int64_t i = 0; i < send_order.NumElements(); ++i) {
      std::memcpy(request->data.data() + static_cast<size_t>(i) * row_bytes,
                  Data<float>(gradients) + order[i] * dim, row_bytes);
    }
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const int64_t dim = ctx->input(0).dim_size(1);
    const auto num_rows =
        static_cast<int64_t>(result.data.size() / (static_cast<size_t>(dim) * sizeof(float)));
    float* received = Data<float>(Output(ctx, 0, {num_rows, dim}));
    std::memcpy(received, result.data.data(), result.data.size());
  }
};

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
};

REGISTER_KERNEL_BUILDER(Name("SokExchangeKeys").Device(tf::DEVICE_CPU), ExchangeKeysOp);
REGISTER_KERNEL_BUILDER(Name("SokExchangeRows").Device(tf::DEVICE_CPU), ExchangeRowsOp);
REGISTER_KERNEL_BUILDER(Name("SokExchangeGradients").Device(tf::DEVICE_CPU), ExchangeGradientsOp);
REGISTER_KERNEL_BUILDER(Name("SokAgree").Device(tf::DEVICE_CPU), AgreeOp);

}  // namespace
}  // namespace sok
