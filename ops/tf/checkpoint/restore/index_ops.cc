// SPDX-License-Identifier: Apache-2.0
// Ops that list the contents of a checkpoint and the checkpoints that it needs: TensorFlow's own
// readers abort the process if a file is corrupt.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/formats/bundle/series.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/tf_file_system.h"

namespace sok {
namespace {

namespace tf = tensorflow;

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

const RegisteredKernel kIndexKernels[] = {
    {"SokListTensors", Make<ListTensorsOp>, {"prefix", "names", "dtypes", "shapes"}},
    {"SokChainOf", Make<ChainOfOp>, {"prefix", "prefixes"}},
};

}  // namespace
}  // namespace sok
