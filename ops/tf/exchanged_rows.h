// SPDX-License-Identifier: Apache-2.0
// Sizes of the rows that ranks send each other.
#ifndef SOK_OPS_TF_EXCHANGED_ROWS_H_
#define SOK_OPS_TF_EXCHANGED_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/exchange/coordinator.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

/// Bytes of counts[rank] rows of `dim` floats for each rank; `counts` is on the host.
std::vector<int64_t> RowBytes(const tensorflow::Tensor& counts, int64_t dim);

/// As RowBytes, for the gradients [n, dim] of as many answers. kInvalidArgument when n is not the
/// sum of `counts`.
std::vector<int64_t> GradientBytes(const std::string& op_name, const tensorflow::Tensor& gradients,
                                   const tensorflow::Tensor& counts);

/// The number of rows that were received. kInvalidArgument when they are not counts[rank] of each
/// rank.
int64_t NumReceivedRows(const std::string& op_name, const ExchangeResult& result,
                        const tensorflow::Tensor& counts, int64_t dim);

}  // namespace sok

#endif  // SOK_OPS_TF_EXCHANGED_ROWS_H_
