// SPDX-License-Identifier: Apache-2.0
// Ops that carry the keys of a group of lookups to the ranks that own them, rows back, and
// gradients to the owners: one request each. Ranks meet in the host's memory.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/exchange/questions.h"
#include "ops/tf/absent_rows.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/exchanged_rows.h"
#include "ops/tf/output_shapes.h"
#include "ops/tf/packed_rows.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokExchangeKeys")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("ticket: variant")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    .Attr("dims: list(int)")
    .Attr("key_bytes: list(int)")
    .Attr("has_gradients: bool")
    .Attr("wire_dtypes: list(string) = []")
    .Output("asked_keys: N * int64")
    .Output("asked_places: N * int32")
    .Output("asked_splits: N * int64")
    .Output("asked_weights: N * float")
    .Output("asked_counts: N * int64")
    .Output("answers: N * int32")
    .Output("answer_splits: N * int64")
    .Output("answer_weights: N * float")
    .Output("answer_counts: N * int64")
    .Output("factors: N * float")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "Asks the owner of each distinct key, as the table's placement says, for its row, or for "
        "sums of rows by bag where that makes fewer bytes; `has_gradients` says whether gradients "
        "will go the same way, and wire_dtypes as what both travel. What others ask of this rank: "
        "sums of rows; asked_keys "
        "[asked_places], of distinct asked_keys, are the keys of these rows, asked_weights, or "
        "none, multiply them, and asked_splits, of length 0 where each row is asked for alone, "
        "cuts "
        "them into sums; asked_counts is [num_ranks]. "
        "What this rank will get: answer_counts [num_ranks] rows, of which `answers`, multiplied "
        "by answer_weights, or none, and cut by answer_splits, add up to each bag, which "
        "`factors`, or none, then multiplies; combiner 'none': `answers` gives each occurrence its "
        "row.");

REGISTER_OP("SokExchangeRows")
    .Input("rows: N * resource")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("row_ids: N * int64")
    .Input("absent_rows: N * float")
    .Input("inverse: N * int32")
    .Input("asked_splits: N * int64")
    .Input("asked_weights: N * float")
    .Input("asked_counts: N * int64")
    .Input("answer_counts: N * int64")
    .Input("answers: N * int32")
    .Input("ticket: variant")
    .Attr("N: int >= 1")
    .Attr("dims: list(int)")
    .Attr("all_keys_have_rows: bool")
    .Attr("wire_dtypes: list(string) = []")
    .Output("output: N * float")
    .SetIsStateful()
    .SetShapeFn(RowsOfDims)
    .Doc(
        "Answers what other ranks have asked, and gives their answers [sum of answer_counts, dim] "
        "to what this rank has asked. `keys` are the distinct keys asked for, with their row_ids, "
        "and `inverse` gives the place among them of each row that asked_splits cuts into sums, "
        "or, "
        "of length 0, does not. "
        "`answers` is for gradients: how often each answer counts. Rows travel as wire_dtypes say, "
        "float32, bfloat16 or float16 for each item, or all as float32; also those of this rank "
        "are rounded to it.");

REGISTER_OP("SokExchangeGradients")
    .Input("gradients: N * float")
    .Input("asked_counts: N * int64")
    .Input("answer_counts: N * int64")
    .Input("ticket: variant")
    .Attr("N: int >= 1")
    .Attr("occurrence: int = 0")
    .Attr("wire_dtypes: list(string) = []")
    .Output("received: N * float")  // not stateful: functions would run one after the other
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) {
        c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, c->Dim(c->input(i), 1)));
      }
      return absl::OkStatus();
    })
    .Doc(
        "Sends the gradient of each answer to the rank that gave it; gives those of the sums that "
        "this rank was asked for [sum of asked_counts, dim]. `occurrence` numbers the ops of a "
        "lookup; wire_dtypes as of SokExchangeRows.");

template <typename Vector>
void OutputVector(const Group& group, int list, int item, const Vector& values) {
  tf::Tensor& output = group.Output(list, item, {static_cast<int64_t>(values.size())});
  if (!values.empty()) std::memcpy(output.data(), values.data(), output.TotalBytes());
}

class ExchangeKeysOp : public ExchangeOp {
 public:
  explicit ExchangeKeysOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx), num_trips_(Attribute<bool>(ctx, "has_gradients") ? 2 : 1) {
    FailOpOnThrow(ctx, [&] {
      combiners_ = CombinersOf(ctx);
      dims_ = ItemAttributes<int64_t>(ctx, "dims");
      key_bytes_ = ItemAttributes<int64_t>(ctx, "key_bytes");
      wire_dtypes_ = WireDtypesOf(ctx);
      for (const int64_t bytes : key_bytes_) {
        if (bytes == 4 || bytes == 8) continue;
        Throw(ErrorCode::kInvalidArgument, "key_bytes must be 4 or 8, got ", bytes);
      }
    });
  }

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    OpCall call(ctx);
    const Group group(ctx);
    std::vector<Questions> questions;
    for (int i = 0; i < group.size(); ++i) {
      questions.push_back(Ask(ctx, call, group, i));
      OutputVector(group, 5, i, questions.back().answers);
      OutputVector(group, 6, i, questions.back().answer_splits);
      OutputVector(group, 7, i, questions.back().answer_weights);
      OutputVector(group, 8, i, questions.back().answer_counts);
      OutputVector(group, 9, i, questions.back().factors);
    }
    JoinedQuestions joined = JoinQuestions(questions);
    request->data = std::move(joined.data);
    request->send_bytes = std::move(joined.send_bytes);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const Group group(ctx);
    const auto parts = SplitQuestions(key_bytes_.size(), result.parts);
    for (int i = 0; i < group.size(); ++i) {
      const auto item = static_cast<size_t>(i);
      const AskedSums asked = ReadQuestions(static_cast<size_t>(key_bytes_[item]), parts[item]);
      OutputVector(group, 0, i, asked.keys);
      OutputVector(group, 1, i, asked.key_places);
      OutputVector(group, 2, i, asked.row_splits);
      OutputVector(group, 3, i, asked.weights);
      OutputVector(group, 4, i, asked.counts);
    }
  }

 private:
  Questions Ask(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i) const {
    const auto item = static_cast<size_t>(i);
    const tf::Tensor& keys = group.Vector(1, i, "keys");
    QuestionOptions options;
    LookupTable(ctx, group.Handle(0, i))->WithTable([&](Table& table) {
      options.placement = table.options().placement;
    });
    options.key_bytes = static_cast<size_t>(key_bytes_[item]);
    options.dim = dims_[item];
    options.num_trips = num_trips_;
    options.float_bytes = WireBytes(wire_dtypes_[item]);
    const Bags bags =
        CheckedBags(call,
                    {combiners_[item], keys.NumElements(), group.Vector(2, i, "inverse"),
                     group.Vector(3, i, "row_splits"), &group.Vector(4, i, "weights")},
                    name().c_str());
    return AskOwners(options, bags, Data<int64_t>(keys));
  }

  const int64_t num_trips_;
  std::vector<Combiner> combiners_;
  std::vector<int64_t> dims_;
  std::vector<int64_t> key_bytes_;
  std::vector<WireDtype> wire_dtypes_;
};

class ExchangeRowsOp : public ExchangeOp {
 public:
  explicit ExchangeRowsOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx), all_keys_have_rows_(Attribute<bool>(ctx, "all_keys_have_rows")) {
    FailOpOnThrow(ctx, [&] {
      dims_ = ItemAttributes<int64_t>(ctx, "dims");
      wire_dtypes_ = WireDtypesOf(ctx);
    });
  }

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    OpCall call(ctx);
    const Group group(ctx);
    const auto kept = RankThatKeeps(ctx, call, wire_dtypes_);
    const RowLayout layout(name(), group, 8, dims_, wire_dtypes_, kept);
    const RowLayout received(name(), group, 9, dims_, wire_dtypes_, kept);
    request->send_bytes = layout.bytes_of_ranks();
    const bool is_on_host = call.engine().IsHostMemory();
    std::shared_ptr<float[]> room(is_on_host ? new float[layout.num_floats()] : nullptr);
    float* next = room.get();
    std::vector<const float*> rows;
    for (int i = 0; i < group.size(); ++i) {
      const int64_t count = layout.num_rows(i) * dims_[static_cast<size_t>(i)];
      float* const answers = is_on_host ? next : call.Temporary<float>(count);
      Answer(ctx, call, group, layout, i, {answers, KeptRows(ctx, group, layout, received, i)});
      rows.push_back(answers);
      next += is_on_host ? count : 0;
    }
    SendRows(call, layout, rows, std::move(room), request);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const Group group(ctx);
    const auto kept = RankThatKeeps(ctx, OpCall(ctx), wire_dtypes_);
    const RowLayout layout(name(), group, 9, dims_, wire_dtypes_, kept);
    OutputReceived(ctx, group, layout, dims_, result);
  }

 private:
  /// Where the rows of an item go.
  struct Places {
    float* all;   // those of a kept run are left out
    float* kept;  // of that run; null: there is none
  };

  /// Where this rank's rows for itself stand among those that it gets.
  float* KeptRows(tf::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                  const RowLayout& received, int i) const {
    const RowRun& to = received.kept_run(i);
    received.CheckKept(i, layout);
    if (to.num_floats == 0) return nullptr;
    return ReceivedRows(ctx, group, received, dims_, i) + to.first_float;
  }

  void Answer(tf::OpKernelContext* ctx, OpCall& call, const Group& group, const RowLayout& layout,
              int i, const Places& places) const {
    const tf::Tensor& row_ids = group.Vector(3, i, "row_ids");
    const tf::Tensor& splits = group.Vector(6, i, "asked_splits");
    const Bags sums = CheckedBags(
        call,
        {splits.NumElements() == 0 ? Combiner::kNone : Combiner::kSum, row_ids.NumElements(),
         group.Vector(5, i, "inverse"), splits, &group.Vector(7, i, "asked_weights")},
        name().c_str());
    layout.CheckNumRows(i, sums.num_bags);
    LookupTable(ctx, group.Handle(1, i))->WithPlanes(call, [&](const TableView& view) {
      const int64_t dim = dims_[static_cast<size_t>(i)];
      if (view.options().dim != dim) {
        Throw(ErrorCode::kInvalidArgument, name(), ": table '", view.options().name, "' has dim ",
              view.options().dim, ", not ", dim);
      }
      const float* absent = all_keys_have_rows_
                                ? nullptr
                                : AbsentRows(call, view, group.Vector(2, i, "keys"), row_ids,
                                             group.Matrix(4, i, "absent_rows"));
      Pool(call, sums, dim, {view.RowsOf(ctx, group.Handle(0, i)), Data<int64_t>(row_ids), absent},
           layout.kept_run(i), places);
    });
  }

  static void Pool(OpCall& call, const Bags& sums, int64_t dim, const RowSource& source,
                   const RowRun& kept, const Places& places) {
    if (places.kept == nullptr || sums.combiner != Combiner::kNone) {
      call.engine().PoolRows(call, sums, dim, source, places.all);
      if (places.kept) std::copy_n(places.all + kept.first_float, kept.num_floats, places.kept);
      return;
    }
    const int64_t begin = kept.first_float / dim, end = begin + kept.num_floats / dim;
    const auto pool = [&](int64_t first, int64_t last, float* to) {
      Bags rows = sums;
      rows.inverse += first;
      rows.num_keys = rows.num_bags = last - first;
      if (last > first) call.engine().PoolRows(call, rows, dim, source, to);
    };
    pool(0, begin, places.all);
    pool(begin, end, places.kept);
    pool(end, sums.num_bags, places.all + end * dim);
  }

  const bool all_keys_have_rows_;
  std::vector<int64_t> dims_;
  std::vector<WireDtype> wire_dtypes_;
};

class ExchangeGradientsOp : public ExchangeOp {
 public:
  explicit ExchangeGradientsOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {
    FailOpOnThrow(ctx, [&] { wire_dtypes_ = WireDtypesOf(ctx); });
  }

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    OpCall call(ctx);
    const Group group(ctx);
    const auto kept = RankThatKeeps(ctx, call, wire_dtypes_);
    const RowLayout layout(name(), group, 2, Dims(group), wire_dtypes_, kept);
    request->send_bytes = layout.bytes_of_ranks();
    std::vector<const float*> rows;
    auto tensors = std::make_shared<std::vector<tf::Tensor>>();
    for (int i = 0; i < group.size(); ++i) {
      const tf::Tensor& gradients = group.Input(0, i);
      layout.CheckNumRows(i, gradients.dim_size(0));
      rows.push_back(Data<float>(gradients));
      tensors->push_back(gradients);
    }
    SendRows(call, layout, rows, std::move(tensors), request);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const Group group(ctx);
    const std::vector<int64_t> dims = Dims(group);
    const auto kept = RankThatKeeps(ctx, OpCall(ctx), wire_dtypes_);
    const RowLayout sent(name(), group, 2, dims, wire_dtypes_, kept);
    const RowLayout layout(name(), group, 1, dims, wire_dtypes_, kept);
    for (int i = 0; i < group.size(); ++i) {
      layout.CheckKept(i, sent);
      const RowRun& to = layout.kept_run(i);
      if (to.num_floats == 0) continue;
      const float* from = Data<float>(group.Input(0, i)) + sent.kept_run(i).first_float;
      std::copy_n(from, to.num_floats, ReceivedRows(ctx, group, layout, dims, i) + to.first_float);
    }
    OutputReceived(ctx, group, layout, dims, result);
  }

 private:
  static std::vector<int64_t> Dims(const Group& group) {
    std::vector<int64_t> dims;
    for (int i = 0; i < group.size(); ++i) {
      dims.push_back(group.Matrix(0, i, "gradients").dim_size(1));
    }
    return dims;
  }

  std::vector<WireDtype> wire_dtypes_;
};

// On a GPU: keys travel from the host.
SOK_REGISTER_KERNEL(Name("SokExchangeKeys")
                        .HostMemory("tables")
                        .HostMemory("keys")
                        .HostMemory("inverse")
                        .HostMemory("row_splits")
                        .HostMemory("weights")
                        .HostMemory("ticket")
                        .HostMemory("asked_keys")
                        .HostMemory("asked_places")
                        .HostMemory("asked_splits")
                        .HostMemory("asked_weights")
                        .HostMemory("asked_counts")
                        .HostMemory("answers")
                        .HostMemory("answer_splits")
                        .HostMemory("answer_weights")
                        .HostMemory("answer_counts")
                        .HostMemory("factors"),
                    ExchangeKeysOp);
SOK_REGISTER_KERNEL(Name("SokExchangeRows")
                        .HostMemory("rows")
                        .HostMemory("tables")
                        .HostMemory("asked_counts")
                        .HostMemory("answer_counts")
                        .HostMemory("answers")
                        .HostMemory("ticket"),
                    ExchangeRowsOp);
SOK_REGISTER_KERNEL(Name("SokExchangeGradients")
                        .HostMemory("asked_counts")
                        .HostMemory("answer_counts")
                        .HostMemory("ticket"),
                    ExchangeGradientsOp);

}  // namespace
}  // namespace sok
