// SPDX-License-Identifier: Apache-2.0
// Checks of the keys and rows given to ops, on any device. All throw kInvalidArgument.
#pragma once

#include <string>

#include "ops/engine/bags.h"
#include "ops/engine/table_options.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/tensor.h"

namespace sok {

void CheckBatchOfKeys(const std::string& op_name, int64_t num_keys);

/// `initial_rows` must be [number of keys, dim].
void CheckInitialRows(const TableOptions& options, const tf::Tensor& keys,
                      const tf::Tensor& initial_rows);

/// `rows` of the keys without a row must be [num_absent, dim].
void CheckAbsentRows(const TableOptions& options, int64_t num_absent, const tf::Tensor& rows);

/// `rows` must be [period, dim], for first values of kind kRows.
void CheckFirstRows(const TableOptions& options, const tf::Tensor& rows);

/// There must be one gradient per bag.
void CheckGradientsOfBags(const std::string& op_name, const tf::Tensor& gradients,
                          const Bags& bags);

/// `values` of gradients must be [number of row ids, dim].
void CheckRowGradients(const TableOptions& options, const tf::Tensor& values, int64_t num_row_ids);

/// `values` must be [n >= 1, dim], and `keys` [n].
void CheckLoadedValues(const TableOptions& options, const tf::Tensor& keys,
                       const tf::Tensor& values);

}  // namespace sok
