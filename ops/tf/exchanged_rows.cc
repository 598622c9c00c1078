// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchanged_rows.h"

#include <numeric>

#include "ops/tf/border.h"

namespace sok {

namespace tf = tensorflow;

std::vector<int64_t> RowBytes(const tf::Tensor& counts, int64_t dim) {
  std::vector<int64_t> bytes(Data<int64_t>(counts), Data<int64_t>(counts) + counts.NumElements());
  for (int64_t& count : bytes) count *= dim * static_cast<int64_t>(sizeof(float));
  return bytes;
}

std::vector<int64_t> GradientBytes(const std::string& op_name, const tf::Tensor& gradients,
                                   const tf::Tensor& counts) {
  std::vector<int64_t> bytes = RowBytes(counts, gradients.dim_size(1));
  const int64_t sum = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  if (sum != static_cast<int64_t>(gradients.TotalBytes())) {
    Throw(ErrorCode::kInvalidArgument, op_name, ": gradients of shape ",
          gradients.shape().DebugString(), " do not fit ", counts.SummarizeValue(8), " answers");
  }
  return bytes;
}

int64_t NumReceivedRows(const std::string& op_name, const ExchangeResult& result,
                        const tf::Tensor& counts, int64_t dim) {
  if (result.received_bytes != RowBytes(counts, dim)) {
    Throw(ErrorCode::kInvalidArgument, op_name, ": rows of ", dim, " floats for ",
          counts.SummarizeValue(8), " answers expected, got ", result.data.size(),
          " bytes; do all ranks run the same layers?");
  }
  return static_cast<int64_t>(result.data.size() / sizeof(float)) / dim;
}

}  // namespace sok
