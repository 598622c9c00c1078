// SPDX-License-Identifier: Apache-2.0
// Ops that list the contents of a checkpoint and the checkpoints that it needs: TensorFlow's own
// readers abort the process if a file is corrupt.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/checkpoint/layout/checkpoint_series.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokListTensors")
    .Input("prefix: string")
    .Output("names: string")
    .Output("dtypes: int32")
    .Output("num_dimensions: int64")
    .Output("sizes: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The tensors of a checkpoint: their dtypes, as numbers of DataType, and their shapes, "
        "concatenated in `sizes`.");

REGISTER_OP("SokChainOf")
    .Input("prefix: string")
    .Output("prefixes: string")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The checkpoints that a checkpoint consists of: the whole one first, then each "
        "increment, itself being the last.");

std::vector<tf::tstring> StringsOf(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

class ListTensorsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      SavedTensors saved(Input(ctx, "prefix").scalar<tf::tstring>()());
      const std::vector<std::string> names = saved.Names();
      std::vector<int32_t> dtypes;
      std::vector<int64_t> num_dimensions, sizes;
      for (const std::string& name : names) {
        const tf::TensorShape shape = saved.ShapeOf(name);
        dtypes.push_back(saved.DtypeOf(name));
        num_dimensions.push_back(shape.dims());
        for (const auto& dimension : shape) sizes.push_back(dimension.size);
      }
      OutputVector(ctx, "names", StringsOf(names));
      OutputVector(ctx, "dtypes", dtypes);
      OutputVector(ctx, "num_dimensions", num_dimensions);
      OutputVector(ctx, "sizes", sizes);
    });
  }
};

class ChainOfOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
      OutputVector(ctx, "prefixes", StringsOf(ChainOf(prefix)));
    });
  }
};

SOK_REGISTER_KERNEL(Name("SokListTensors")
                        .HostMemory("prefix")
                        .HostMemory("names")
                        .HostMemory("dtypes")
                        .HostMemory("num_dimensions")
                        .HostMemory("sizes"),
                    ListTensorsOp);
SOK_REGISTER_KERNEL(Name("SokChainOf").HostMemory("prefix").HostMemory("prefixes"), ChainOfOp);

}  // namespace
}  // namespace sok
