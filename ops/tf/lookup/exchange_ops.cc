// SPDX-License-Identifier: Apache-2.0
// Ops that send the keys of a group of lookups to their owners, rows back, and gradients to the
// owners: one request each. The exchange takes place in the host's memory.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/exchange/payload/same_requests.h"
#include "ops/exchange/payload/sharded_request.h"
#include "ops/tf/base/exported.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/lookup/bags_input.h"
#include "ops/tf/lookup/exchanged_rows.h"
#include "ops/tf/lookup/packed_rows.h"
#include "ops/tf/ranks/exchange_op.h"
#include "ops/tf/tables/resource/absent_rows.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

std::atomic<RankBits> ranks_alike{0};  // of lookups that trained
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokExchangeKeys")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("collective: variant")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    .Attr("dims: list(int)")
    .Attr("key_bytes: list(int)")
    .Attr("has_gradients: bool")
    .Attr("wire_dtypes: list(string) = []")
    .Attr("row_dtypes: list(string) = []")
    .Output("requested_keys: N * int64")
    .Output("requested_places: N * int32")
    .Output("requested_splits: N * int64")
    .Output("requested_weights: N * float")
    .Output("requested_counts: N * int64")
    .Output("replies: N * int32")
    .Output("reply_splits: N * int64")
    .Output("reply_weights: N * float")
    .Output("reply_counts: N * int64")
    .Output("factors: N * float")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "Requests the row of each distinct key from its owner, given by the table's placement, "
        "or sums of rows by bag if these take fewer bytes; `has_gradients` states whether "
        "gradients will follow; wire_dtypes and row_dtypes are as for SokExchangeRows. Requests of "
        "other ranks to "
        "this one are sums of rows. requested_keys [requested_places], with distinct "
        "requested_keys, are the keys of these rows; requested_weights, if any, multiply them; "
        "requested_splits, of length 0 if each row is requested alone, splits them into sums; "
        "requested_counts is [2 * num_ranks]: rows, and how many of them are sums of this kind, "
        "all "
        "or none. This rank will receive reply_counts [2 * num_ranks] rows, likewise; "
        "those at `replies`, multiplied by reply_weights, if any, and split by reply_splits, add "
        "up to each bag; `factors`, if any, then multiply the bag. With combiner 'none', "
        "`replies` gives the row of each occurrence.");

REGISTER_OP("SokExchangeRows")
    .Input("rows: N * resource")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("row_ids: N * int64")
    .Input("absent_rows: N * float")
    .Input("inverse: N * int32")
    .Input("requested_splits: N * int64")
    .Input("requested_weights: N * float")
    .Input("requested_counts: N * int64")
    .Input("reply_counts: N * int64")
    .Input("replies: N * int32")
    .Input("collective: variant")
    .Attr("N: int >= 1")
    .Attr("dims: list(int)")
    .Attr("all_keys_have_rows: bool")
    .Attr("gradient: {'reads', 'inserts', 'counts'} = 'reads'")
    .Attr("with_slots: bool = false")
    .Attr("wire_dtypes: list(string) = []")
    .Attr("row_dtypes: list(string) = []")
    .Output("output: N * float")
    .SetIsStateful()
    .SetShapeFn(RowsOfDims)
    .Doc(
        "Replies to other ranks, and outputs their replies [sum of reply_counts, dim] to this "
        "rank. `keys` are the distinct requested keys, with their row_ids, and `inverse` gives "
        "the position of each row among them; requested_splits splits these into sums, unless "
        "its length is 0. `replies` is for gradients: how often each reply counts. Rows are sent "
        "as wire_dtypes, float32, bfloat16 or float16 for each item, or all as float32; this "
        "rank's own rows are rounded to it, too. Where that is float32, those that are no sums are "
        "sent as row_dtypes, the tables', which is exact. `gradient` and with_slots as for "
        "SokPoolRows.");

REGISTER_OP("SokExchangeValues")
    .Input("values: T")
    .Input("requested_counts: N * int64")
    .Input("reply_counts: N * int64")
    .Input("collective: variant")
    .Attr("N: int >= 1")
    .Attr("T: list({float, int32, int64}) >= 1")
    .Attr("occurrence: int = 0")
    .Attr("wire_dtypes: list(string) = []")
    .Output("received: T")  // not stateful: TensorFlow would serialize functions
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) {
        c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, c->Dim(c->input(i), 1)));
      }
      return absl::OkStatus();
    })
    .Doc(
        "Sends the values of each reply, such as its gradient, to the rank that sent it; outputs "
        "those of the sums requested from this rank [sum of requested_counts, columns]. "
        "`occurrence` numbers the ops of a lookup; wire_dtypes as for SokExchangeRows: float32 for "
        "integers, which travel as they are.");

std::vector<int64_t> Joined(std::vector<int64_t> first, const std::vector<int64_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

class ExchangeKeysOp : public ExchangeOp {
 public:
  explicit ExchangeKeysOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx), has_gradients_(Attribute<bool>(ctx, "has_gradients")) {
    FailOpOnThrow(ctx, [&] {
      combiners_ = CombinersOf(ctx);
      dims_ = ItemAttributes<int64_t>(ctx, "dims");
      key_bytes_ = ItemAttributes<int64_t>(ctx, "key_bytes");
      wire_dtypes_.emplace(WireDtypes::WithRows(ctx));
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
    std::vector<ShardedRequest> requests;
    for (int i = 0; i < group.size(); ++i) {
      requests.push_back(Request(ctx, call, group, i));
      OutputVector(ctx, "replies", requests.back().replies, i);
      OutputVector(ctx, "reply_splits", requests.back().reply_splits, i);
      OutputVector(ctx, "reply_weights", requests.back().reply_weights, i);
      OutputVector(ctx, "reply_counts",
                   Joined(requests.back().reply_counts, requests.back().sum_counts), i);
      OutputVector(ctx, "factors", requests.back().factors, i);
    }
    request->outgoing = JoinRequests(std::move(requests));
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const Group group(ctx);
    CollectiveHandleIn(Input(ctx, "collective"))->NoteAlike(same_requests_.AlikeIn(result.parts));
    const auto parts = SplitRequests(key_bytes_.size(), result.parts);
    for (int i = 0; i < group.size(); ++i) {
      const auto item = static_cast<size_t>(i);
      const RequestedSums requested =
          ReadRequests(static_cast<size_t>(key_bytes_[item]), parts[item]);
      OutputVector(ctx, "requested_keys", requested.keys, i);
      OutputVector(ctx, "requested_places", requested.key_places, i);
      OutputVector(ctx, "requested_splits", requested.row_splits, i);
      OutputVector(ctx, "requested_weights", requested.weights, i);
      OutputVector(ctx, "requested_counts", Joined(requested.counts, requested.sum_counts), i);
    }
  }

 private:
  ShardedRequest Request(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i) const {
    const auto item = static_cast<size_t>(i);
    const tf::Tensor& keys = group.Vector("keys", i);
    ShardedRequestOptions options;
    LookupTable(ctx, group.Handle("tables", i))->WithTable([&](const TableView& view) {
      options.placement = view.options().placement;
    });
    options.key_bytes = static_cast<size_t>(key_bytes_[item]);
    const auto bytes = [&](bool are_sums) {
      const int64_t of_gradient = has_gradients_ ? ElementBytes(wire_dtypes_->sums[item]) : 0;
      return dims_[item] * (ElementBytes(wire_dtypes_->Of(item, are_sums)) + of_gradient);
    };
    options.row_bytes = bytes(/*are_sums=*/false);
    options.sum_bytes = bytes(/*are_sums=*/true);
    const Bags bags = CheckedBags(call,
                                  {combiners_[item], keys.NumElements(), group.Vector("inverse", i),
                                   group.Vector("row_splits", i), &group.Vector("weights", i)},
                                  name().c_str());
    return MakeRequest(options, bags, Data<int64_t>(keys));
  }

  const bool has_gradients_;
  SameRequests same_requests_;
  std::vector<Combiner> combiners_;
  std::vector<int64_t> dims_;
  std::vector<int64_t> key_bytes_;
  std::optional<WireDtypes> wire_dtypes_;
};

class ExchangeRowsOp : public ExchangeOp {
 public:
  explicit ExchangeRowsOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx),
        all_keys_have_rows_(Attribute<bool>(ctx, "all_keys_have_rows")),
        with_slots_(Attribute<bool>(ctx, "with_slots")) {
    FailOpOnThrow(ctx, [&] {
      dims_ = ItemAttributes<int64_t>(ctx, "dims");
      wire_dtypes_.emplace(WireDtypes::WithRows(ctx));
    });
  }

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    OpCall call(ctx);
    const Group group(ctx);
    const RowLayout layout(ctx, call, group, "requested_counts", dims_, *wire_dtypes_);
    const bool is_on_host = call.engine().IsHostMemory();
    std::shared_ptr<float[]> buffer(is_on_host ? new float[layout.num_floats()] : nullptr);
    float* next = buffer.get();
    std::vector<const float*> rows;
    for (int i = 0; i < group.size(); ++i) {
      const int64_t count = layout.num_rows(i) * dims_[static_cast<size_t>(i)];
      float* const replies = is_on_host ? next : call.Temporary<float>(count);
      Answer(ctx, call, group, layout, i, replies);
      rows.push_back(replies);
      next += is_on_host ? count : 0;
    }
    request->outgoing = OutgoingRows(call, layout, rows, std::move(buffer));
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const Group group(ctx);
    const OpCall call(ctx);
    const RowLayout layout(ctx, call, group, "reply_counts", dims_, *wire_dtypes_);
    OutputReceived(ctx, group, layout, dims_, result, "output");
    // Now all ranks have found rows: a lookup that failed on one of them counts on none.
    for (int i = 0; i < group.size(); ++i)
      LookupTable(ctx, group.Handle("tables", i))->NoteLookupOfRanks();
  }

 private:
  void Answer(tf::OpKernelContext* ctx, OpCall& call, const Group& group, const RowLayout& layout,
              int i, float* replies) const {
    const tf::Tensor& row_ids = group.Vector("row_ids", i);
    const tf::Tensor& splits = group.Vector("requested_splits", i);
    const Bags sums = CheckedBags(
        call,
        {splits.NumElements() == 0 ? Combiner::kNone : Combiner::kSum, row_ids.NumElements(),
         group.Vector("inverse", i), splits, &group.Vector("requested_weights", i)},
        name().c_str());
    layout.CheckNumRows(i, sums.num_bags);
    LookupTable(ctx, group.Handle("tables", i))->WithPlanes(call, [&](const TableView& view) {
      const int64_t dim = dims_[static_cast<size_t>(i)];
      if (view.options().dim != dim) {
        Throw(ErrorCode::kInvalidArgument, name(), ": table '", view.options().name, "' has dim ",
              view.options().dim, ", not ", dim);
      }
      const float* absent = all_keys_have_rows_
                                ? nullptr
                                : AbsentRows(call, view, group.Vector("keys", i), row_ids,
                                             group.Matrix("absent_rows", i));
      call.engine().PoolRows(call, sums,
                             {view.RowsOf(ctx, group.Handle("rows", i)), Data<int64_t>(row_ids),
                              absent, with_slots_ ? &view.planes : nullptr},
                             replies);
    });
  }

  const bool all_keys_have_rows_;
  const bool with_slots_;
  std::vector<int64_t> dims_;
  std::optional<WireDtypes> wire_dtypes_;
};

class ExchangeValuesOp : public ExchangeOp {
 public:
  explicit ExchangeValuesOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {
    FailOpOnThrow(ctx, [&] {
      wire_dtypes_.emplace(ctx);
      const auto types = ItemAttributes<tf::DataType>(ctx, "T");
      for (size_t i = 0; i < types.size(); ++i) {
        if (types[i] == tf::DT_FLOAT || wire_dtypes_->sums[i] == Element::kFloat32) continue;
        Throw(ErrorCode::kInvalidArgument, "integers travel as they are: their wire dtype must be ",
              "float32");
      }
    });
  }

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    OpCall call(ctx);
    const Group group(ctx);
    const RowLayout layout(ctx, call, group, "reply_counts", Dims(group), *wire_dtypes_);
    std::vector<const float*> rows;
    auto tensors = std::make_shared<std::vector<tf::Tensor>>();
    for (int i = 0; i < group.size(); ++i) {
      const tf::Tensor& values = group.Input("values", i);
      layout.CheckNumRows(i, values.dim_size(0));
      rows.push_back(static_cast<const float*>(values.data()));
      tensors->push_back(values);
    }
    request->outgoing = OutgoingRows(call, layout, rows, std::move(tensors));
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    ranks_alike |= trained_alike_.Note(CollectiveHandleIn(Input(ctx, "collective"))->alike());
    const Group group(ctx);
    const std::vector<int64_t> dims = Dims(group);
    const OpCall call(ctx);
    const RowLayout layout(ctx, call, group, "requested_counts", dims, *wire_dtypes_);
    OutputReceived(ctx, group, layout, dims, result, "received");
  }

 private:
  /// Integers are copied as the floats of their size.
  static std::vector<int64_t> Dims(const Group& group) {
    std::vector<int64_t> dims;
    for (int i = 0; i < group.size(); ++i) {
      const tf::Tensor& values = group.Matrix("values", i);
      dims.push_back(values.dim_size(1) * FloatsOf(values.dtype()));
    }
    return dims;
  }

  TrainedAlike trained_alike_;
  std::optional<WireDtypes> wire_dtypes_;
};

// On a GPU: keys are sent from the host.
const RegisteredKernel kExchangeKernels[] = {
    {"SokExchangeKeys",
     Make<ExchangeKeysOp>,
     {"tables", "keys", "inverse", "row_splits", "weights", "collective", "requested_keys",
      "requested_places", "requested_splits", "requested_weights", "requested_counts", "replies",
      "reply_splits", "reply_weights", "reply_counts", "factors"}},
    {"SokExchangeRows",
     Make<ExchangeRowsOp>,
     {"rows", "tables", "requested_counts", "reply_counts", "replies", "collective"}},
    {"SokExchangeValues",
     Make<ExchangeValuesOp>,
     {"requested_counts", "reply_counts", "collective"}},
};

}  // namespace
}  // namespace sok

/// The ranks, a bit for each of the first 64, that trained on the same keys of this rank.
SOK_EXPORT uint64_t sok_exchange_ranks_alike() { return sok::ranks_alike; }
