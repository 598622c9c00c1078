// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/lookup_checks.h"

#include "ops/base/error.h"

namespace sok {

void CheckBatchOfKeys(const std::string& op_name, int64_t num_keys) {
  if (num_keys <= kMaxBatchKeys) return;
  Throw(ErrorCode::kInvalidArgument, op_name, ": a batch is limited to ", kMaxBatchKeys,
        " keys, got ", num_keys);
}

void CheckInitialRows(const TableOptions& options, const tf::Tensor& keys,
                      const tf::Tensor& initial_rows) {
  const int64_t num_keys = keys.NumElements();
  if (initial_rows.dim_size(0) == num_keys && initial_rows.dim_size(1) == options.dim) return;
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': rows for ", num_keys,
        " keys must have shape [", num_keys, ", ", options.dim, "], got ",
        initial_rows.shape().DebugString());
}

void CheckAbsentRows(const TableOptions& options, int64_t num_absent, const tf::Tensor& rows) {
  if (rows.shape() == tf::TensorShape({num_absent, options.dim})) return;
  Throw(ErrorCode::kInvalidArgument, "table '", options.name,
        "': the initializer returned rows of shape ", rows.shape().DebugString(), ", expected [",
        num_absent, ", ", options.dim, "]");
}

void CheckFirstRows(const TableOptions& options, const tf::Tensor& rows) {
  CheckAbsentRows(options, options.first_value.period, rows);
}

void CheckGradientsOfBags(const std::string& op_name, const tf::Tensor& gradients,
                          const Bags& bags) {
  if (gradients.dim_size(0) == bags.num_bags) return;
  Throw(ErrorCode::kInvalidArgument, op_name, ": expected gradients for ", bags.num_bags,
        " bags, got ", gradients.dim_size(0));
}

void CheckRowGradients(const TableOptions& options, const tf::Tensor& values, int64_t num_row_ids) {
  if (values.dim_size(0) == num_row_ids && values.dim_size(1) == options.dim) return;
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': gradients must have shape [",
        num_row_ids, ", ", options.dim, "], got ", values.shape().DebugString());
}

void CheckLoadedValues(const TableOptions& options, const tf::Tensor& keys,
                       const tf::Tensor& values) {
  if (values.dims() != 2 || values.dim_size(0) == 0 || values.dim_size(1) != options.dim) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': values must have shape [n >= 1, ", options.dim, "], got ",
          values.shape().DebugString());
  }
  if (keys.dims() == 1 && keys.dim_size(0) == values.dim_size(0)) return;
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': keys must have shape [",
        values.dim_size(0), "], one per row, got ", keys.shape().DebugString());
}

}  // namespace sok
