// SPDX-License-Identifier: Apache-2.0
// Shape functions shared by several ops.
#pragma once

#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {

/// Vectors of unknown lengths.
absl::Status AllVectors(tf::shape_inference::InferenceContext* c);

/// Matrices of unknown sizes.
absl::Status AllMatrices(tf::shape_inference::InferenceContext* c);

/// A vector, then matrices, of unknown sizes.
absl::Status VectorAndMatrices(tf::shape_inference::InferenceContext* c);

/// Matrices whose widths are the attribute `dims`.
absl::Status RowsOfDims(tf::shape_inference::InferenceContext* c);

/// The shapes of the first inputs, one per output.
absl::Status ShapesOfInputs(tf::shape_inference::InferenceContext* c);

/// The shapes of the second list of inputs.
absl::Status ShapesOfSecondList(tf::shape_inference::InferenceContext* c);

}  // namespace sok
