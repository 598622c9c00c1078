// SPDX-License-Identifier: Apache-2.0
// Ops that list the contents of a checkpoint and the checkpoints that it needs: TensorFlow's own
// readers abort the process if a file is corrupt.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/formats/bundle/series.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/tf_file_system.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokListTensors")
    .Input("prefix: string")
    .Output("names: string")
    .Output("dtypes: string")
    .Output("num_dimensions: int64")
    .Output("sizes: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The tensors of a checkpoint: the names of their dtypes, and their shapes, concatenated in "
        "`sizes`.");

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
      Bundle saved(TfFileSystem(), Input(ctx, "prefix").scalar<tf::tstring>()());
      const std::vector<std::string> names = saved.Names();
      std::vector<tf::tstring> dtypes;
      std::vector<int64_t> num_dimensions, sizes;
      for (const std::string& name : names) {
        const BundleEntry entry = saved.EntryOf(name);
        dtypes.emplace_back(entry.type().name);
        num_dimensions.push_back(static_cast<int64_t>(entry.shape.size()));
        sizes.insert(sizes.end(), entry.shape.begin(), entry.shape.end());
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
      OutputVector(ctx, "prefixes", StringsOf(ChainOf(TfFileSystem(), prefix)));
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
