// SPDX-License-Identifier: Apache-2.0
// Ops that carry keys to the ranks that own them, rows back, and gradients to the owners.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/lookup/pool_rows.h"
#include "ops/lookup/questions.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/exchanged_rows.h"
#include "ops/tf/row_pointers.h"
#include "ops/tf/table_resource.h"
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
    .Input("inverse: int32")
    .Input("row_splits: int64")
    .Input("ticket: variant")
    .Attr("combiner: {'none', 'sum', 'mean'}")
    .Attr("num_ranks: int >= 1")
    .Attr("key_bytes: int >= 4")
    .Attr("dim: int >= 1")
    .Attr("has_gradients: bool")
    .Output("asked_keys: int64")
    .Output("asked_places: int32")
    .Output("asked_splits: int64")
    .Output("asked_counts: int64")
    .Output("answers: int32")
    .Output("answer_splits: int64")
    .Output("answer_counts: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "Asks the owner of each distinct key, rank floormod(key, num_ranks), for its row, or for "
        "sums of rows by bag where that makes fewer bytes; `has_gradients` says whether gradients "
        "will go the same way. What others ask of this rank: sums of rows; asked_keys "
        "[asked_places] are the keys of these rows and asked_splits cuts them into sums; "
        "asked_counts is [num_ranks]. What this rank will get: answer_counts [num_ranks] rows, of "
        "which `answers`, cut by answer_splits, add up to each bag; combiner 'none': `answers` "
        "gives each occurrence its row.");

REGISTER_OP("SokExchangeRows")
    .Input("rows: resource")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("row_ids: int64")
    .Input("absent_rows: float")
    .Input("inverse: int32")
    .Input("asked_splits: int64")
    .Input("asked_counts: int64")
    .Input("answer_counts: int64")
    .Input("ticket: variant")
    .Attr("dim: int >= 1")
    .Attr("all_keys_have_rows: bool")
    .Output("output: float")
    .SetIsStateful()
    .SetShapeFn(OneMatrix)
    .Doc(
        "Answers what other ranks have asked, and gives their answers [sum of answer_counts, dim] "
        "to what this rank has asked. `keys` are the distinct keys asked for, with their row_ids, "
        "and `inverse` gives the place among them of each row that asked_splits cuts into sums.");

REGISTER_OP("SokExchangeGradients")
    .Input("gradients: float")
    .Input("asked_counts: int64")
    .Input("answer_counts: int64")
    .Input("ticket: variant")
    .Attr("occurrence: int = 0")
    .Output("received: float")
    .SetIsStateful()
    .SetShapeFn(OneMatrix)
    .Doc(
        "Sends the gradient of each answer to the rank that gave it; gives those of the sums that "
        "this rank was asked for [sum of asked_counts, dim]. `occurrence` numbers the ops of a "
        "lookup.");

void CopyTo(tf::Tensor& output, const void* data) {
  if (output.NumElements() > 0) std::memcpy(output.data(), data, output.TotalBytes());
}

template <typename T>
void OutputVector(tf::OpKernelContext* ctx, int index, const std::vector<T>& values) {
  CopyTo(Output(ctx, index, {static_cast<int64_t>(values.size())}), values.data());
}

class ExchangeKeysOp : public ExchangeOp {
 public:
  explicit ExchangeKeysOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {
    options_.num_ranks = Attribute<int64_t>(ctx, "num_ranks");
    options_.key_bytes = static_cast<size_t>(Attribute<int64_t>(ctx, "key_bytes"));
    options_.dim = Attribute<int64_t>(ctx, "dim");
    options_.num_trips = Attribute<bool>(ctx, "has_gradients") ? 2 : 1;
  }

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& keys = InputOfRank(ctx, 0, "keys", 1);
    const Bags bags =
        BagsFromInputs(combiner_, keys.NumElements(), InputOfRank(ctx, 1, "inverse", 1),
                       InputOfRank(ctx, 2, "row_splits", 1));
    Questions questions = AskOwners(options_, bags, Data<int64_t>(keys));
    OutputVector(ctx, 4, questions.answers);
    OutputVector(ctx, 5, questions.answer_splits);
    OutputVector(ctx, 6, questions.answer_counts);
    request->data = std::move(questions.data);
    request->send_bytes = std::move(questions.send_bytes);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const AskedSums asked =
        ReadQuestions(options_.key_bytes, result.data.data(), result.received_bytes);
    OutputVector(ctx, 0, asked.keys);
    OutputVector(ctx, 1, asked.key_places);
    OutputVector(ctx, 2, asked.row_splits);
    OutputVector(ctx, 3, asked.counts);
  }

 private:
  const Combiner combiner_;
  QuestionOptions options_;
};

/// Output 0: what was received, which has to be counts[rank] rows of each rank.
void ReceiveRows(tf::OpKernelContext* ctx, const std::string& op_name, const ExchangeResult& result,
                 const tf::Tensor& counts, int64_t dim) {
  const int64_t num_rows = NumReceivedRows(op_name, result, counts, dim);
  CopyTo(Output(ctx, 0, {num_rows, dim}), result.data.data());
}

class ExchangeRowsOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const auto variable = LookupVariable(ctx, 0);
    const std::shared_ptr<Table> table = LookupTable(ctx, 1)->table();
    const TableOptions& options = table->options();
    const tf::Tensor& row_ids = InputOfRank(ctx, 3, "row_ids", 1);
    const Bags sums =
        BagsFromInputs(Combiner::kSum, row_ids.NumElements(), InputOfRank(ctx, 5, "inverse", 1),
                       InputOfRank(ctx, 6, "asked_splits", 1));
    request->send_bytes = RowBytes(ctx->input(7), options.dim);
    request->data.resize(static_cast<size_t>(sums.num_bags * options.dim) * sizeof(float));
    OpExecutor executor(ctx);
    SharedLocks locks({variable.get()});
    const RowPointers pointers(
        executor, *table, PlaneData(variable.get(), options.capacity, options.dim),
        InputOfRank(ctx, 2, "keys", 1), row_ids, InputOfRank(ctx, 4, "absent_rows", 2));
    PoolRows(executor, sums, options.dim, pointers.data(),
             reinterpret_cast<float*>(request->data.data()));
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    ReceiveRows(ctx, name(), result, ctx->input(8), LookupTable(ctx, 1)->table()->options().dim);
  }
};

class ExchangeGradientsOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& gradients = InputOfRank(ctx, 0, "gradients", 2);
    request->send_bytes = GradientBytes(name(), gradients, ctx->input(2));
    const auto* bytes = static_cast<const char*>(gradients.data());
    request->data.assign(bytes, bytes + gradients.TotalBytes());
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    ReceiveRows(ctx, name(), result, ctx->input(1), ctx->input(0).dim_size(1));
  }
};

REGISTER_KERNEL_BUILDER(Name("SokExchangeKeys").Device(tf::DEVICE_CPU), ExchangeKeysOp);
// On a GPU: keys travel from the host, where the ranks meet.
REGISTER_KERNEL_BUILDER(Name("SokExchangeKeys")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("keys")
                            .HostMemory("inverse")
                            .HostMemory("row_splits")
                            .HostMemory("ticket")
                            .HostMemory("asked_keys")
                            .HostMemory("asked_places")
                            .HostMemory("asked_splits")
                            .HostMemory("asked_counts")
                            .HostMemory("answers")
                            .HostMemory("answer_splits")
                            .HostMemory("answer_counts"),
                        ExchangeKeysOp);
REGISTER_KERNEL_BUILDER(Name("SokExchangeRows").Device(tf::DEVICE_CPU), ExchangeRowsOp);
REGISTER_KERNEL_BUILDER(Name("SokExchangeGradients").Device(tf::DEVICE_CPU), ExchangeGradientsOp);

}  // namespace
}  // namespace sok
