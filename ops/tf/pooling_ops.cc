// SPDX-License-Identifier: Apache-2.0
// Ops between rows and bags: rows pooled, and gradients of bags merged to one slice for each row.
#include <optional>
#include <string>
#include <vector>

#include "ops/tf/absent_rows.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/group.h"
#include "ops/tf/lookup_checks.h"
#include "ops/tf/output_shapes.h"
#include "ops/tf/planes_of_group.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP("SokPoolRows")
    .Input("rows: N * resource")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("row_ids: N * int64")
    .Input("absent_rows: N * float")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    .Attr("dims: list(int)")
    .Attr("all_keys_have_rows: bool")
    .Output("output: N * float")
    .SetIsStateful()
    .SetShapeFn(RowsOfDims)
    .Doc(
        "The pooled rows of each bag [num_bags, dim]; combiner 'none': of each occurrence. weights "
        "[num_keys] multiply rows, and a mean divides by their sum; length 0: all are 1. For keys "
        "with the row id -1 absent_rows [number of such keys, dim] are used, or, if it is empty, "
        "their first values.");

REGISTER_OP("SokPoolReceivedRows")
    .Input("rows: N * float")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("factors: N * float")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    .Attr("rows_may_be_alone: bool = false")
    .Output("output: N * float")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) {
        ShapeHandle rows;
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &rows));
        c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, c->Dim(rows, 1)));
      }
      return absl::OkStatus();
    })
    .Doc(
        "As SokPoolRows, for rows [number of answers, dim] that other ranks have sent. factors "
        "[num_bags] stand in the place of what a mean multiplies by, since a row may be a sum of "
        "several; length 0: it does not. rows_may_be_alone: row_splits of length 0 say that each "
        "row is a bag of its own, whatever the combiner.");

REGISTER_OP("SokMergeGradients")
    .Input("gradients: N * float")
    .Input("counted: Tcounted")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("factors: N * float")
    .Attr("N: int >= 1")
    .Attr("Tcounted: list({int64, float}) >= 1")
    .Attr("combiners: list(string)")
    .Attr("rows_may_be_alone: bool = false")
    .Output("merged: N * float")
    .SetShapeFn([](InferenceContext* c) {
      const int num_items = c->num_outputs();
      for (int i = 0; i < num_items; ++i) {
        c->set_output(i, c->Matrix(c->Dim(c->input(num_items + i), 0), c->Dim(c->input(i), 1)));
      }
      return absl::OkStatus();
    })
    .Doc(
        "The gradient of each distinct row, summed over its occurrences; gradients is [num_bags, "
        "dim]. `counted` has as many elements, or rows, as there are distinct rows; weights, "
        "factors and rows_may_be_alone as of the lookup.");

/// The combiner of each item of an op that has `rows_may_be_alone`.
class CombinersOfItems {
 public:
  explicit CombinersOfItems(tf::OpKernelConstruction* ctx)
      : combiners_(CombinersOf(ctx)), may_be_alone_(Attribute<bool>(ctx, "rows_may_be_alone")) {}

  Combiner Of(int item, const tf::Tensor& row_splits) const {
    if (may_be_alone_ && row_splits.NumElements() == 0) return Combiner::kNone;
    return combiners_[static_cast<size_t>(item)];
  }

 private:
  std::vector<Combiner> combiners_;
  bool may_be_alone_ = false;
};

class PoolRowsOp : public tf::OpKernel {
 public:
  explicit PoolRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), all_keys_have_rows_(Attribute<bool>(ctx, "all_keys_have_rows")) {
    FailOpOnThrow(ctx, [&] { combiners_ = CombinersOf(ctx); });
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const Group group(ctx);
      OpCall call(ctx);
      const PlanesOfGroup planes(ctx, call, group, 1);
      std::vector<RowSource> sources;
      for (int i = 0; i < group.size(); ++i) {
        sources.push_back(SourceOf(ctx, call, group, i, planes.view(i)));
      }
      ForEachItemAtOnce(ctx, 5, [&](OpCall& item_call, int i) {
        Pool(item_call, group, i, planes.view(i).options().dim, sources[static_cast<size_t>(i)]);
      });
    });
  }

 private:
  RowSource SourceOf(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i,
                     const TableView& view) const {
    const tf::Tensor& row_ids = group.Vector(3, i, "row_ids");
    RowSource source;
    source.plane = view.RowsOf(ctx, group.Handle(0, i));
    source.row_ids = Data<int64_t>(row_ids);
    if (!all_keys_have_rows_) {
      source.absent_values = AbsentRows(call, view, group.Vector(2, i, "keys"), row_ids,
                                        group.Matrix(4, i, "absent_rows"));
    }
    return source;
  }

  void Pool(OpCall& call, const Group& group, int i, int64_t dim, const RowSource& source) const {
    const Bags bags =
        CheckedBags(call,
                    {combiners_[static_cast<size_t>(i)], group.Input(3, i).NumElements(),
                     group.Vector(5, i, "inverse"), group.Vector(6, i, "row_splits"),
                     &group.Vector(7, i, "weights")},
                    name().c_str());
    call.engine().PoolRows(call, bags, dim, source,
                           Data<float>(group.Output(0, i, {bags.num_bags, dim})));
  }

  const bool all_keys_have_rows_;
  std::vector<Combiner> combiners_;
};

class PoolReceivedRowsOp : public tf::OpKernel {
 public:
  explicit PoolReceivedRowsOp(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx) {
    FailOpOnThrow(ctx, [&] { combiners_.emplace(ctx); });
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const Group group(ctx);
      ForEachItemAtOnce(ctx, 0, [&](OpCall& call, int i) {
        const tf::Tensor& rows = group.Matrix(0, i, "rows");
        const int64_t dim = rows.dim_size(1);
        const tf::Tensor& splits = group.Vector(2, i, "row_splits");
        const Bags bags =
            CheckedBags(call,
                        {combiners_->Of(i, splits), rows.dim_size(0), group.Vector(1, i, "inverse"),
                         splits, &group.Vector(3, i, "weights"), &group.Vector(4, i, "factors")},
                        name().c_str());
        call.engine().PoolRows(call, bags, dim, {Data<float>(rows), nullptr, nullptr},
                               Data<float>(group.Output(0, i, {bags.num_bags, dim})));
      });
    });
  }

 private:
  std::optional<CombinersOfItems> combiners_;
};

class MergeGradientsOp : public tf::OpKernel {
 public:
  explicit MergeGradientsOp(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx) {
    FailOpOnThrow(ctx, [&] {
      combiners_.emplace(ctx);
      ItemAttributes<tf::DataType>(ctx, "Tcounted");
    });
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const Group group(ctx);
      ForEachItemAtOnce(ctx, 0, [&](OpCall& call, int i) { Merge(ctx, call, group, i); });
    });
  }

 private:
  void Merge(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i) const {
    const tf::Tensor& gradients = group.Matrix(0, i, "gradients");
    const int64_t num_distinct = group.Input(1, i).dims() > 0 ? group.Input(1, i).dim_size(0) : 0;
    const tf::Tensor& splits = group.Vector(3, i, "row_splits");
    const Bags bags =
        CheckedBags(call,
                    {combiners_->Of(i, splits), num_distinct, group.Vector(2, i, "inverse"), splits,
                     &group.Vector(4, i, "weights"), &group.Vector(5, i, "factors")},
                    name().c_str());
    CheckGradientsOfBags(name(), gradients, bags);
    if (call.engine().IsHostMemory() && IsOneToOneInOrder(bags)) {  // nothing to add up
      ctx->set_output(group.Place(0, i), gradients);
      return;
    }
    const int64_t dim = gradients.dim_size(1);
    call.engine().MergeGradients(call, bags, dim, Data<float>(gradients),
                                 Data<float>(group.Output(0, i, {num_distinct, dim})));
  }

  std::optional<CombinersOfItems> combiners_;
};

SOK_REGISTER_KERNEL(Name("SokPoolRows").HostMemory("rows").HostMemory("tables"), PoolRowsOp);
SOK_REGISTER_KERNEL(Name("SokPoolReceivedRows"), PoolReceivedRowsOp);
SOK_REGISTER_KERNEL(Name("SokMergeGradients"), MergeGradientsOp);

}  // namespace
}  // namespace sok
