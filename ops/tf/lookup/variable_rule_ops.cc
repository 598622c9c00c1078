// SPDX-License-Identifier: Apache-2.0
// Fused optimizers of ordinary variables: one op applies a rule to some rows and their states.
#include <algorithm>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "ops/cpu/rows/apply_rule.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/lookup/rule_input.h"
#include "ops/tf/tables/resource/plane_variable.h"
#include "tensorflow/core/framework/common_shape_fns.h"

// TensorFlow 2.21 has deprecated the mutex that its op kernels still return.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace sok {
namespace {

constexpr char kDoc[] =
    "Applies a rule of ops/engine/rules.h to rows of an ordinary variable. States have the "
    "variable's shape, or [rows] if they are of whole rows, gradients one row for each of the "
    "distinct row_ids; hyperparameters are "
    "scalars, in the order of their names. With moves_all_rows, other rows have a gradient of "
    "zero; else they stay as they are.";

#define SOK_RULE_OF_VARIABLE                                 \
  .Input("gradients: float")                                 \
      .Input("row_ids: int64")                               \
      .Input("hyperparameters: num_hyperparameters * float") \
      .Attr("num_states: int >= 0")                          \
      .Attr("num_hyperparameters: int >= 1")                 \
      .Attr("hyperparameter_names: list(string)")            \
      .Attr(RuleAttribute())                                 \
      .Attr("moves_all_rows: bool = false")                  \
      .SetShapeFn(tf::shape_inference::NoOutputs)            \
      .Doc(kDoc)

REGISTER_OP("SokApplyRuleToVariable")
    .Input("variable: resource")
    .Input("states: num_states * resource") SOK_RULE_OF_VARIABLE.SetIsStateful();

REGISTER_OP("SokApplyRuleToRefVariable")
    .Input("variable: Ref(float)")
    .Input("states: Ref(num_states * float)") SOK_RULE_OF_VARIABLE;

/// The values of a variable and its states, to write to, and their locks.
class WritableValues {
 public:
  WritableValues(tf::OpKernelContext* ctx, int num_states) {
    std::vector<int> places = {PlaceOfInput(ctx, "variable")};
    for (int i = 0; i < num_states; ++i) places.push_back(PlaceOfInput(ctx, "states", i));
    ctx->input_is_ref(places[0]) ? TakeReferences(ctx, places) : TakeResources(ctx, places);
  }

  tf::Tensor& operator[](size_t i) { return values_[i]; }
  size_t size() const { return values_.size(); }

 private:
  void TakeReferences(tf::OpKernelContext* ctx, const std::vector<int>& places) {
    std::vector<tf::mutex*> mutexes;
    for (const int place : places) mutexes.push_back(ctx->input_ref_mutex(place));
    std::sort(mutexes.begin(), mutexes.end());
    mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
    for (tf::mutex* each : mutexes) reference_locks_.emplace_back(*each);
    for (const int place : places) {
      values_.push_back(ctx->mutable_input(place, /*lock_held=*/true));
      if (values_.back().IsInitialized()) continue;
      Throw(ErrorCode::kFailedPrecondition, "input ", place, " of ", ctx->op_kernel().name(),
            " is a variable that has not been initialized");
    }
  }

  /// Readers from now on copy the value: otherwise they would see it change.
  void TakeResources(tf::OpKernelContext* ctx, const std::vector<int>& places) {
    std::vector<tf::Var*> variables;
    for (const int place : places) {
      variables_.push_back(LookupVariable(ctx, tf::HandleFromInput(ctx, place)));
      variables.push_back(variables_.back().get());
    }
    locks_ = std::make_unique<VariableLocks>(variables, VariableLocks::Mode::kAlone);
    for (tf::Var* variable : variables) {
      const tf::Tensor& value = *variable->tensor();
      if (value.dtype() != tf::DT_FLOAT) {
        Throw(ErrorCode::kInvalidArgument, "variables must be float32, got ",
              tf::DataTypeString(value.dtype()));
      }
      if (!variable->copy_on_read_mode) {
        tf::Tensor copy;
        ThrowIfError(ctx->allocate_temp(tf::DT_FLOAT, value.shape(), &copy));
        std::copy_n(Data<float>(value), value.NumElements(), Data<float>(copy));
        *variable->tensor() = copy;
        variable->copy_on_read_mode = true;
      }
      values_.push_back(*variable->tensor());
    }
  }

  std::vector<VariablePtr> variables_;
  std::unique_ptr<VariableLocks> locks_;
  std::vector<std::unique_lock<tf::mutex>> reference_locks_;
  std::vector<tf::Tensor> values_;  // released before the locks
};

/// The kernel of both ops.
class ApplyRuleToVariable {
 public:
  explicit ApplyRuleToVariable(tf::OpKernelConstruction* ctx)
      : rule_(ctx),
        moves_all_rows_(Attribute<bool>(ctx, "moves_all_rows")),
        num_states_(static_cast<int>(Attribute<int64_t>(ctx, "num_states"))) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Rule rule = rule_.Read(ctx);
    const tf::Tensor& row_ids = InputOfRank(ctx, "row_ids", 1);
    const tf::Tensor& gradients = Input(ctx, "gradients");
    WritableValues values(ctx, num_states_);
    const RulePlanes planes = PlanesOf(values, rule, row_ids, gradients);
    const int64_t num_gradients = row_ids.NumElements();
    OpExecutor executor(ctx);
    if (moves_all_rows_) {
      ApplyToRowsInUse(executor, rule, planes, values[0].dim_size(0), /*rows_in_use=*/nullptr,
                       num_gradients, Data<int64_t>(row_ids), Data<float>(gradients));
    } else {
      ApplyToRows(executor, rule, planes, num_gradients, Data<int64_t>(row_ids),
                  Data<float>(gradients));
    }
  }

 private:
  RulePlanes PlanesOf(WritableValues& values, const Rule& rule, const tf::Tensor& row_ids,
                      const tf::Tensor& gradients) const {
    const int wanted = std::visit([](const auto& any) { return any.kStates; }, rule);
    const tf::TensorShape& shape = values[0].shape();
    const int64_t num_rows = shape.dims() > 0 ? shape.dim_size(0) : 0;
    RulePlanes planes;
    planes.rows =
        FloatRows(Data<float>(values[0]), num_rows > 0 ? shape.num_elements() / num_rows : 0);
    const int64_t width =
        std::visit([&](const auto& any) { return StateWidth(any, planes.dim()); }, rule);
    const tf::TensorShape state_shape = width == planes.dim() ? shape : tf::TensorShape({num_rows});
    for (size_t i = 0; i < values.size(); ++i) {
      const bool has_its_shape = i == 0 || values[i].shape() == state_shape;
      if (num_states_ == wanted && shape.dims() > 0 && has_its_shape) continue;
      Throw(ErrorCode::kInvalidArgument, "the rule '", rule_.name(), "' takes ", wanted,
            " states of the shape ", state_shape.DebugString(), ", got ", num_states_, ", one of ",
            values[i].shape().DebugString());
    }
    const int64_t num_ids = row_ids.NumElements();
    if (gradients.NumElements() != num_ids * planes.dim()) {
      Throw(ErrorCode::kInvalidArgument, "input `gradients` must be ", num_ids, " rows of ",
            planes.dim(), " floats, got ", gradients.shape().DebugString());
    }
    for (int64_t i = 0; i < num_ids; ++i) {
      const int64_t row_id = Data<int64_t>(row_ids)[i];
      if (row_id >= 0 && row_id < num_rows) continue;
      Throw(ErrorCode::kInvalidArgument, "row_ids[", i, "] = ", row_id, " is not in [0, ", num_rows,
            ")");
    }
    for (int i = 0; i < num_states_; ++i) {
      planes.states[i] = FloatRows(Data<float>(values[static_cast<size_t>(i) + 1]), width);
    }
    return planes;
  }

  const RuleInput rule_;
  const bool moves_all_rows_;
  const int num_states_;
};

const RegisteredKernel kVariableRuleKernels[] = {
    {"SokApplyRuleToVariable",
     Make<KernelOf<ApplyRuleToVariable>>,
     {},
     RegisteredKernel::Devices::kCpu},
    {"SokApplyRuleToRefVariable",
     Make<KernelOf<ApplyRuleToVariable>>,
     {},
     RegisteredKernel::Devices::kCpu},
};

}  // namespace
}  // namespace sok
