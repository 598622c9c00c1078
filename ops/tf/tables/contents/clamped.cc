// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/clamped.h"

#include "ops/engine/rows_view.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/kernels.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/platform/logging.h"

namespace sok {

void WarnOfClamped(const std::string& table, int64_t num_clamped) {
  if (num_clamped == 0) return;
  LOG(WARNING) << "table '" << table << "': " << num_clamped
               << " numbers beyond 65,504, the largest float16, have become it; to keep them, use "
                  "rows of bfloat16 or float32";
}

namespace {

REGISTER_OP("SokWarnOfClamped")
    .Input("values: float")
    .Attr("table_name: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Logs how many of the values that rows of float16 are set to will become the largest.");

class Warn {
 public:
  explicit Warn(tf::OpKernelConstruction* ctx)
      : table_(Attribute<std::string>(ctx, "table_name")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const tf::Tensor& values = Input(ctx, "values");
    WarnOfClamped(table_, NumClamped(Element::kFloat16, values.NumElements(), Data<float>(values)));
  }

 private:
  const std::string table_;
};

// On a GPU: values are counted on the host.
const RegisteredKernel kClampedKernels[] = {
    {"SokWarnOfClamped", Make<KernelOf<Warn>>, {"values"}},
};

}  // namespace
}  // namespace sok
