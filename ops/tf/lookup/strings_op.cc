// SPDX-License-Identifier: Apache-2.0
// Strings of file readers, which hold all bytes of a column in one buffer, as tensors.
#include <algorithm>
#include <cstdint>

#include "ops/tf/base/border.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"

namespace sok {
namespace {

REGISTER_OP("SokStrings")
    .Input("offsets: N * int64")
    .Input("bytes: N * uint8")
    .Attr("N: int >= 1")
    .Output("strings: N * string")
    .SetShapeFn(AllVectors)
    .Doc(
        "The strings [n] whose bytes stand one after another in `bytes`: string i goes from "
        "offsets[i] to offsets[i + 1], less offsets[0].");

void MakeStrings(tf::OpKernelContext* ctx) {
  const Group group(ctx);
  ForEachItemAtOnce(ctx, "offsets", [&](OpCall&, int i) {
    const tf::Tensor& bytes = group.Vector("bytes", i);
    const tf::Tensor& offsets = group.Vector("offsets", i);
    const int64_t size = offsets.NumElements() - 1;
    const auto* offset = Data<int64_t>(offsets);
    if (size < 0 || !std::is_sorted(offset, offset + size + 1) ||
        offset[size] - offset[0] != bytes.NumElements()) {
      Throw(ErrorCode::kInvalidArgument, group.name(), ": the offsets of column ", i,
            " must ascend from the first by ", bytes.NumElements(), ", the number of bytes");
    }
    const auto* text = reinterpret_cast<const char*>(Data<uint8_t>(bytes));
    auto* strings = Data<tf::tstring>(group.Output("strings", i, {size}));
    for (int64_t j = 0; j < size; ++j) {
      const int64_t length = offset[j + 1] - offset[j];
      strings[j].assign(text, static_cast<size_t>(length));
      text += length;
    }
  });
}

const RegisteredKernel kStringsKernels[] = {
    {"SokStrings", Make<KernelOf<Calls<MakeStrings>>>, {}, RegisteredKernel::Devices::kCpu},
};

}  // namespace
}  // namespace sok
