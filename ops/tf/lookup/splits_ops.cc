// SPDX-License-Identifier: Apache-2.0
// Ops that turn TensorFlow's bags of keys into checked row splits, on the host.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ops/engine/bags.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"

namespace sok {
namespace {

REGISTER_OP("SokRowSplits")
    .Input("indices: N * int64")
    .Input("dense_shape: N * int64")
    .Input("values: Tvalues")
    .Attr("N: int >= 1")
    .Attr("Tvalues: list(type) >= 1")
    .Attr("layer_names: list(string)")
    .Attr("bags_per_sample: list(int)")
    .Attr("names_of_number: list(string)")
    .Attr("max_nnzs: list(int)")
    .Output("row_splits: N * int64")
    .SetShapeFn(AllVectors)
    .Doc(
        "Row splits [num_rows + 1] of SparseTensors. Checks their indices [num_keys, 2] and that "
        "their number equals that of `values`. max_nnz 0: any number of keys in a row.");

REGISTER_OP("SokCheckedSplits")
    .Input("row_splits: Tsplits")
    .Input("values: Tvalues")
    .Attr("N: int >= 1")
    .Attr("Tsplits: list({int32, int64}) >= 1")
    .Attr("Tvalues: list(type) >= 1")
    .Attr("layer_names: list(string)")
    .Attr("bags_per_sample: list(int)")
    .Attr("names_of_number: list(string)")
    .Attr("max_nnzs: list(int)")
    .Attr("are_samples: list(bool)")
    .Output("checked_splits: N * int64")
    .SetShapeFn(AllVectors)
    .Doc(
        "The row splits of RaggedTensors, checked: they ascend from 0 to the number of `values`, "
        "form whole samples of bags_per_sample bags, of at most max_nnz keys each (0: any number). "
        "With "
        "are_samples, they instead split bags into samples. names_of_number: of bags_per_sample, "
        "for "
        "messages.");

REGISTER_OP("SokCheckedWeights")
    .Input("weights: N * float")
    .Input("places: N * int64")
    .Input("shapes: N * int64")
    .Input("places_of_ids: N * int64")
    .Input("shapes_of_ids: N * int64")
    .Attr("N: int >= 1")
    .Attr("names: list(string)")
    .Output("checked_weights: N * float")
    .SetShapeFn(AllVectors)
    .Doc(
        "The weights, checked to be at the positions of the ids. `places` are the indices of a "
        "SparseTensor, [num_ids, rank], whose dense_shape are `shapes`, or the row splits of a "
        "RaggedTensor. `names` are the names of the ids, for messages.");

// A bag without keys has an output row, too.
constexpr int64_t kMaxBags = kMaxBatchKeys;

/// The attributes of the layer of an item.
struct LayerOfItem {
  std::string name;
  int64_t bags_per_sample;
  std::string name_of_number;  // of bags_per_sample, for messages
  int64_t max_nnz;             // INT64_MAX: any number

  void CheckNumBags(int64_t num_bags, const char* bags, const char* where) const {
    if (num_bags > kMaxBags) {
      Throw(ErrorCode::kInvalidArgument, name, ": a ", bags, " may have ", kMaxBags, " rows", where,
            ", got ", num_bags);
    }
    if (num_bags < 0 || num_bags % bags_per_sample != 0) {
      Throw(ErrorCode::kInvalidArgument, name, ": the ", bags, " has ", num_bags, " rows", where,
            ", which is not a multiple of ", name_of_number, " = ", bags_per_sample,
            "; its rows are sample * ", name_of_number, " + bag");
    }
  }
};

std::vector<LayerOfItem> LayersOfItems(tf::OpKernelConstruction* ctx) {
  const auto names = ItemAttributes<std::string>(ctx, "layer_names");
  const auto bags_per_sample = ItemAttributes<int64_t>(ctx, "bags_per_sample");
  const auto names_of_number = ItemAttributes<std::string>(ctx, "names_of_number");
  const auto max_nnzs = ItemAttributes<int64_t>(ctx, "max_nnzs");
  std::vector<LayerOfItem> layers;
  for (size_t i = 0; i < names.size(); ++i) {
    if (bags_per_sample[i] < 1 || max_nnzs[i] < 0) {
      Throw(ErrorCode::kInvalidArgument, names[i], ": ", names_of_number[i],
            " must be at least 1, got ", bags_per_sample[i], ", and max_nnz at least 0, got ",
            max_nnzs[i]);
    }
    layers.push_back({names[i], bags_per_sample[i], names_of_number[i],
                      max_nnzs[i] == 0 ? INT64_MAX : max_nnzs[i]});
  }
  return layers;
}

class RowSplits {
 public:
  explicit RowSplits(tf::OpKernelConstruction* ctx) {
    layers_ = LayersOfItems(ctx);
    ItemAttributes<tf::DataType>(ctx, "Tvalues");
  }

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    const std::vector<int> firsts = FirstsOfEqualItems(group);
    ForEachItemAtOnce(ctx, "indices", [&](OpCall&, int i) {
      const auto item = static_cast<size_t>(i);
      if (firsts[item] == i) Split(group, i, layers_[item]);
    });
    for (int i = 0; i < group.size(); ++i) {
      const int first = firsts[static_cast<size_t>(i)];
      if (first == i) continue;
      group.SetOutput("row_splits", i,
                      *ctx->mutable_output(PlaceOfOutput(ctx, "row_splits", first)));
    }
  }

 private:
  /// For each item, the first item with the same splits, which has the same indices: typically ids
  /// of several features that are columns of one matrix.
  std::vector<int> FirstsOfEqualItems(const Group& group) const {
    std::map<const void*, int> by_indices;
    std::vector<int> firsts;
    for (int i = 0; i < group.size(); ++i) {
      const int first = by_indices.emplace(group.Input("indices", i).data(), i).first->second;
      firsts.push_back(AreEqual(group, first, i) ? first : i);
    }
    return firsts;
  }

  bool AreEqual(const Group& group, int first, int second) const {
    const LayerOfItem& layer = layers_[static_cast<size_t>(first)];
    const LayerOfItem& other = layers_[static_cast<size_t>(second)];
    return group.Input("indices", first).shape() == group.Input("indices", second).shape() &&
           group.Input("dense_shape", first).data() == group.Input("dense_shape", second).data() &&
           group.Input("dense_shape", first).shape() ==
               group.Input("dense_shape", second).shape() &&
           group.Input("values", first).NumElements() ==
               group.Input("values", second).NumElements() &&
           layer.bags_per_sample == other.bags_per_sample && layer.max_nnz == other.max_nnz;
  }

  static void Split(const Group& group, int item, const LayerOfItem& layer) {
    const tf::Tensor& indices = group.Matrix("indices", item);
    const tf::Tensor& dense_shape = group.Vector("dense_shape", item);
    if (indices.dim_size(1) != 2 || dense_shape.NumElements() != 2) {
      Throw(ErrorCode::kInvalidArgument, layer.name,
            ": the SparseTensor must have rank 2, [bags, most keys of a bag], got rank ",
            dense_shape.NumElements());
    }
    const int64_t num_values = group.Input("values", item).NumElements();
    if (num_values != indices.dim_size(0)) {
      Throw(ErrorCode::kInvalidArgument, layer.name, ": the SparseTensor has ", indices.dim_size(0),
            " indices and ", num_values, " values; they must have the same length");
    }
    const int64_t num_bags = dense_shape.vec<int64_t>()(0);
    layer.CheckNumBags(num_bags, "SparseTensor", " (dense_shape[0])");
    RowSplitsFromIndices(layer.name, num_values, Data<int64_t>(indices), num_bags, layer.max_nnz,
                         Data<int64_t>(group.Output("row_splits", item, {num_bags + 1})));
  }

  std::vector<LayerOfItem> layers_;
};

class CheckedSplits {
 public:
  explicit CheckedSplits(tf::OpKernelConstruction* ctx) {
    layers_ = LayersOfItems(ctx);
    are_samples_ = ItemAttributes<bool>(ctx, "are_samples");
    ItemAttributes<tf::DataType>(ctx, "Tsplits");
    ItemAttributes<tf::DataType>(ctx, "Tvalues");
  }

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItemAtOnce(ctx, "row_splits", [&](OpCall&, int i) {
      const tf::Tensor& splits = group.Vector("row_splits", i);
      if (splits.dtype() == tf::DT_INT32) {
        Check<int32_t>(group, i, splits);
      } else {
        Check<int64_t>(group, i, splits);
      }
    });
  }

 private:
  template <typename Split>
  void Check(const Group& group, int item, const tf::Tensor& splits) const {
    const LayerOfItem& layer = layers_[static_cast<size_t>(item)];
    const bool are_samples = are_samples_[static_cast<size_t>(item)];
    const int64_t num_bags = splits.NumElements() - 1;
    const int64_t num_values = group.Input("values", item).NumElements();
    const Split* given = Data<Split>(splits);
    if (num_bags < 0 || given[0] != 0 || given[num_bags] != num_values) {
      Throw(ErrorCode::kInvalidArgument, layer.name,
            ": the row_splits of the RaggedTensor must ascend from 0 to its number of values, ",
            num_values, ", got ",
            num_bags < 0 ? "none"
                         : std::to_string(given[0]) + " to " + std::to_string(given[num_bags]));
    }
    if (!are_samples) layer.CheckNumBags(num_bags, "RaggedTensor", "");
    int64_t* checked = Data<int64_t>(group.Output("checked_splits", item, splits.shape()));
    checked[0] = 0;
    for (int64_t bag = 0; bag < num_bags; ++bag) {
      checked[bag + 1] = given[bag + 1];
      const int64_t size = checked[bag + 1] - checked[bag];
      if (size < 0) ThrowDescends(layer, bag, checked);
      if (are_samples ? size != layer.bags_per_sample : size > layer.max_nnz) {
        ThrowSize(layer, are_samples, bag, size);
      }
    }
  }

  [[noreturn]] static void ThrowDescends(const LayerOfItem& layer, int64_t bag,
                                         const int64_t* splits) {
    Throw(ErrorCode::kInvalidArgument, layer.name,
          ": the row_splits of the RaggedTensor must ascend, but row ", bag, " is from ",
          splits[bag], " to ", splits[bag + 1]);
  }

  [[noreturn]] static void ThrowSize(const LayerOfItem& layer, bool is_sample, int64_t bag,
                                     int64_t size) {
    if (is_sample) {
      Throw(ErrorCode::kInvalidArgument, layer.name, ": each sample of the RaggedTensor must have ",
            layer.name_of_number, " = ", layer.bags_per_sample, " bags, but sample ", bag, " has ",
            size);
    }
    Throw(ErrorCode::kInvalidArgument, layer.name, ": a bag may have max_nnz = ", layer.max_nnz,
          " keys, but row ", bag, " of the RaggedTensor has ", size,
          "; raise max_nnz or drop keys");
  }

  std::vector<LayerOfItem> layers_;
  std::vector<bool> are_samples_;
};

class CheckedWeights {
 public:
  explicit CheckedWeights(tf::OpKernelConstruction* ctx)
      : names_(ItemAttributes<std::string>(ctx, "names")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    for (int i = 0; i < group.size(); ++i) {
      const std::string& name = names_[static_cast<size_t>(i)];
      const tf::Tensor& places = group.Input("places", i);
      CheckNumber(name, group.Vector("weights", i).NumElements(), places);
      CheckEqual(name, "shape", group.Input("shapes", i), group.Input("shapes_of_ids", i));
      CheckEqual(name, places.dims() == 2 ? "indices" : "row_splits", places,
                 group.Input("places_of_ids", i));
      group.SetOutput("checked_weights", i, group.Input("weights", i));
    }
  }

 private:
  static void CheckNumber(const std::string& name, int64_t num_weights, const tf::Tensor& places) {
    int64_t expected = places.dims() == 2 ? places.dim_size(0) : 0;
    if (places.dims() == 1 && places.NumElements() > 0) {
      expected = Data<int64_t>(places)[places.NumElements() - 1];
    }
    if (num_weights == expected) return;
    Throw(ErrorCode::kInvalidArgument, name, ": sp_weights has ", num_weights, " values for the ",
          expected, " places that sp_ids has");
  }

  static void CheckEqual(const std::string& name, const char* what, const tf::Tensor& of_weights,
                         const tf::Tensor& of_ids) {
    const int64_t* weights = Data<int64_t>(of_weights);
    const int64_t* ids = Data<int64_t>(of_ids);
    const int64_t size = std::min(of_weights.NumElements(), of_ids.NumElements());
    const int64_t first =
        weights == ids ? size : std::mismatch(weights, weights + size, ids).first - weights;
    if (first == size && of_weights.shape() == of_ids.shape()) return;
    const auto value = [&](const tf::Tensor& tensor) {
      return first < tensor.NumElements() ? std::to_string(Data<int64_t>(tensor)[first])
                                          : "nothing";
    };
    Throw(ErrorCode::kInvalidArgument, name, ": sp_weights must have the ", what,
          " of the ids, so that each id has a weight, but its ", what, ", of shape ",
          of_weights.shape().DebugString(), ", have ", value(of_weights), " at ", first,
          " where those of the ids, of shape ", of_ids.shape().DebugString(), ", have ",
          value(of_ids));
  }

  const std::vector<std::string> names_;
};

// On a GPU: indices come from the host, like everything read from files; only the number of values
// matters, wherever they are.
const RegisteredKernel kSplitsKernels[] = {
    {"SokRowSplits", Make<StepKernelOf<RowSplits>>, {"indices", "dense_shape", "row_splits"}},
    {"SokCheckedSplits", Make<StepKernelOf<CheckedSplits>>, {"row_splits", "checked_splits"}},
    {"SokCheckedWeights",
     Make<StepKernelOf<CheckedWeights>>,
     {"places", "shapes", "places_of_ids", "shapes_of_ids"}},
};

}  // namespace
}  // namespace sok
