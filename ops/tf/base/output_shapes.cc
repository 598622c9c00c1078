// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/output_shapes.h"

#include <cstdint>
#include <vector>

namespace sok {

using tf::shape_inference::InferenceContext;

absl::Status AllVectors(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  }
  return absl::OkStatus();
}

absl::Status AllMatrices(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
  }
  return absl::OkStatus();
}

absl::Status VectorAndMatrices(InferenceContext* c) {
  TF_RETURN_IF_ERROR(AllMatrices(c));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

absl::Status RowsOfDims(InferenceContext* c) {
  std::vector<int64_t> dims;
  TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
  if (dims.size() != static_cast<size_t>(c->num_outputs())) {
    return absl::InvalidArgumentError("dims must have one value per item");
  }
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, dims[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

absl::Status ShapesOfInputs(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
  return absl::OkStatus();
}

absl::Status ShapesOfSecondList(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(c->num_outputs() + i));
  return absl::OkStatus();
}

}  // namespace sok
