// SPDX-License-Identifier: Apache-2.0
// Ops that list the contents of a checkpoint and the checkpoints that it needs, and read a tensor:
// TensorFlow's own readers abort the process if a file is corrupt.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/formats/bundle/series.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/bundle/saved_tensors.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"

namespace sok {
namespace {

using tf::shape_inference::InferenceContext;

REGISTER_OP("SokListTensors")
    .Input("prefix: string")
    .Output("names: string")
    .Output("dtypes: string")
    .Output("shapes: string")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc("The tensors of a checkpoint: the names of their dtypes, and their shapes, as '3 4'.");

REGISTER_OP("SokChainOf")
    .Input("prefix: string")
    .Output("prefixes: string")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The checkpoints that a checkpoint consists of: the whole one first, then each "
        "increment, itself being the last.");

REGISTER_OP("SokReadSavedTensor")
    .Input("prefix: string")
    .Output("is_there: bool")
    .Output("value: dtype")
    .Attr("names: list(string) >= 1")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Attr("hint: string")
    .Attr("is_required: bool")
    .Attr("may_differ: bool = false")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->UnknownShape());
      return absl::OkStatus();
    })
    .Doc(
        "The first of the named tensors that the checkpoint has. If it does not have the shape, "
        "the error ends with the hint; a vector of one value is accepted as a scalar. If the "
        "checkpoint has none of them, or with may_differ one of another shape, and none is "
        "required, "
        "the output is empty.");

REGISTER_OP("SokReadSavedRows")
    .Input("prefix: string")
    .Output("rows: float")
    .Attr("tensor: string")
    .Attr("slice: string")
    .SetIsStateful()
    .SetShapeFn(AllMatrices)
    .Doc("As RestoreV2, a slice of a matrix of float32, bfloat16 or float16, as float32.");

std::vector<tf::tstring> StringsOf(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

void ListTensors(tf::OpKernelContext* ctx) {
  Bundle saved(TfFileSystem(), Input(ctx, "prefix").scalar<tf::tstring>()());
  const std::vector<std::string> names = saved.Names();
  std::vector<tf::tstring> dtypes, shapes;
  for (const std::string& name : names) {
    const BundleEntry entry = saved.EntryOf(name);
    std::string shape;
    for (const int64_t size : entry.shape) shape += std::to_string(size) + " ";
    dtypes.emplace_back(entry.type().name);
    shapes.emplace_back(shape);
  }
  OutputVector(ctx, "names", StringsOf(names));
  OutputVector(ctx, "dtypes", dtypes);
  OutputVector(ctx, "shapes", shapes);
}

void ListChain(tf::OpKernelContext* ctx) {
  const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
  OutputVector(ctx, "prefixes", StringsOf(ChainOf(TfFileSystem(), prefix)));
}

class ReadSavedTensor {
 public:
  explicit ReadSavedTensor(tf::OpKernelConstruction* ctx)
      : names_(Attribute<std::vector<std::string>>(ctx, "names")),
        dtype_(Attribute<tf::DataType>(ctx, "dtype")),
        shape_(Attribute<tf::TensorShape>(ctx, "shape")),
        hint_(Attribute<std::string>(ctx, "hint")),
        is_required_(Attribute<bool>(ctx, "is_required")),
        may_differ_(Attribute<bool>(ctx, "may_differ")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    SavedTensors saved(Input(ctx, "prefix").scalar<tf::tstring>()());
    const auto name = std::find_if(names_.begin(), names_.end(),
                                   [&](const std::string& each) { return saved.Contains(each); });
    const bool is_there = name != names_.end() && !(may_differ_ && saved.ShapeOf(*name) != shape_);
    *Data<bool>(Output(ctx, "is_there", {})) = is_there;
    SetOutput(ctx, "value",
              is_there || is_required_ ? Read(saved, is_there ? *name : names_.front())
                                       : tf::Tensor(dtype_, tf::TensorShape({0})));
  }

 private:
  tf::Tensor Read(SavedTensors& saved, const std::string& name) const {
    const tf::Tensor value = saved.Read(name, dtype_);
    tf::Tensor given(dtype_);
    const bool is_scalar = shape_.dims() == 0 && value.NumElements() == 1;
    if ((is_scalar || value.shape() == shape_) && given.CopyFrom(value, shape_)) return given;
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(),
          " has the shape ", value.shape().DebugString(), ", not ", shape_.DebugString(), ": ",
          hint_);
  }

  const std::vector<std::string> names_;
  const tf::DataType dtype_;
  const tf::TensorShape shape_;
  const std::string hint_;
  const bool is_required_, may_differ_;
};

class ReadSavedRows {
 public:
  explicit ReadSavedRows(tf::OpKernelConstruction* ctx)
      : name_(Attribute<std::string>(ctx, "tensor")),
        slice_(Attribute<std::string>(ctx, "slice")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    SavedTensors saved(Input(ctx, "prefix").scalar<tf::tstring>()());
    tf::TensorShape whole, part;
    tf::TensorSlice slice;
    ThrowIfError(tf::checkpoint::ParseShapeAndSlice(slice_, &whole, &slice, &part));
    const tf::TensorShape shape = saved.ShapeOf(name_);
    if (shape != whole || shape.dims() != 2) {
      Throw(ErrorCode::kInvalidArgument, name_, " in the checkpoint ", saved.prefix(),
            " has the shape ", shape.DebugString(), ", expected ", whole.DebugString());
    }
    slice = Filled(slice, shape);
    float* rows = Data<float>(Output(ctx, "rows", {part.dim_size(0), part.dim_size(1)}));
    saved.ReadSlice(name_, slice, rows);
  }

 private:
  /// With the lengths of whole dimensions.
  static tf::TensorSlice Filled(tf::TensorSlice slice, const tf::TensorShape& shape) {
    for (int d = 0; d < slice.dims(); ++d) {
      if (!slice.IsFullAt(d)) continue;
      slice.set_start(d, 0);
      slice.set_length(d, shape.dim_size(d));
    }
    return slice;
  }

  const std::string name_, slice_;
};

// On a GPU: checkpoints are on the host.
const RegisteredKernel kReadKernels[] = {
    {"SokListTensors", Make<KernelOf<Calls<ListTensors>>>, {"prefix", "names", "dtypes", "shapes"}},
    {"SokReadSavedTensor", Make<KernelOf<ReadSavedTensor>>, {"prefix", "is_there", "value"}},
    {"SokReadSavedRows", Make<KernelOf<ReadSavedRows>>, {"prefix", "rows"}},
    {"SokChainOf", Make<KernelOf<Calls<ListChain>>>, {"prefix", "prefixes"}},
};

}  // namespace
}  // namespace sok
