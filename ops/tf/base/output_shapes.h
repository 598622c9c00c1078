// SPDX-License-Identifier: Apache-2.0
// Shape functions shared by several ops.
#pragma once

#include "tensorflow/core/framework/shape_inference.h"

namespace sok {

/// Vectors of unknown lengths.
absl::Status AllVectors(tensorflow::shape_inference::InferenceContext* c);

/// A vector, then matrices, of unknown sizes.
absl::Status VectorAndMatrices(tensorflow::shape_inference::InferenceContext* c);

/// Matrices whose widths are the attribute `dims`.
absl::Status RowsOfDims(tensorflow::shape_inference::InferenceContext* c);

/// The shapes of the first inputs, one per output.
absl::Status ShapesOfInputs(tensorflow::shape_inference::InferenceContext* c);

/// The shapes of the second list of inputs.
absl::Status ShapesOfSecondList(tensorflow::shape_inference::InferenceContext* c);

}  // namespace sok
