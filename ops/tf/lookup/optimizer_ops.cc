// SPDX-License-Identifier: Apache-2.0
// Fused optimizers: one op applies any rule to the rows of a group of tables and their states.
#include <string>
#include <variant>
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/lookup/row_gradients.h"
#include "ops/tf/lookup/rule_input.h"
#include "ops/tf/tables/resource/planes_of_group.h"
#include "ops/tf/tables/resource/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokApplyRule")
    .Input("rows: N * resource")
    .Input("states: num_state_variables * resource")
    .Input("tables: N * resource")
    .Input("gradients: N * float")
    .Input("row_ids: N * int64")
    .Input("hyperparameters: num_hyperparameters * float")
    .Attr("N: int >= 1")
    .Attr("num_state_variables: int >= 0")
    .Attr("num_hyperparameters: int >= 1")
    .Attr("hyperparameter_names: list(string)")
    .Attr(RuleAttribute())
    .Attr("rows_to_update: {'given', 'in_use'}")
    .Attr("row_ids_are_distinct: list(bool)")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Applies a rule of ops/engine/rules.h to a group of tables. Its states are slots of the "
        "table: one variable per state, or all adjacent in one; `states` lists the first of each "
        "table, then the second. hyperparameters are scalars, in the order of their names. "
        "'in_use': rows that are not in row_ids have a gradient of zero. On a GPU, row_ids that "
        "are known to be distinct are not checked; ids without a row are skipped. Rejects "
        "hyperparameters that TensorFlow's ops reject. If an item is rejected, all tables are "
        "unchanged.");

class ApplyRule {
 public:
  explicit ApplyRule(tf::OpKernelConstruction* ctx)
      : rule_(ctx),
        all_in_use_(Attribute<std::string>(ctx, "rows_to_update") == "in_use"),
        row_ids_are_distinct_(ItemAttributes<bool>(ctx, "row_ids_are_distinct")) {
    const auto num_items = static_cast<int>(Attribute<int64_t>(ctx, "N"));
    const auto num_variables = static_cast<int>(Attribute<int64_t>(ctx, "num_state_variables"));
    if (num_variables % num_items != 0) {
      Throw(ErrorCode::kInvalidArgument, "the rule '", rule_.name(),
            "' needs the same number of states for each of ", num_items, " tables, got ",
            num_variables);
    }
    num_states_ = num_variables / num_items;
  }

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    const Rule rule = rule_.Read(ctx);
    OpCall call(ctx);
    const PlanesOfGroup planes(ctx, call, group, "tables");
    std::vector<Update> updates;
    for (int i = 0; i < group.size(); ++i) {
      updates.push_back(CheckedUpdate(ctx, call, group, i, planes, rule));
    }
    const auto apply = [&](OpCall& item_call, int i) {
      Apply(item_call, planes.view(i).table, rule, updates[static_cast<size_t>(i)]);
    };
    if (all_in_use_) {  // takes locks
      ForEachItem(ctx, apply);
    } else {
      ForEachItemAtOnce(ctx, "gradients", apply);
    }
  }

 private:
  struct Update {
    RulePlanes planes;
    RowGradients gradients;
  };

  Update CheckedUpdate(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int item,
                       const PlanesOfGroup& planes, const Rule& rule) const {
    const TableView& view = planes.view(item);
    const RowGradients given =
        GradientsOfAdmitted(ctx, call, &planes.table(item), view,
                            GradientsOf(view.options(), group.Matrix("gradients", item),
                                        group.Vector("row_ids", item)));
    const bool are_distinct = row_ids_are_distinct_[static_cast<size_t>(item)];
    Update update{PlanesOf(ctx, group, item, view, rule),
                  DistinctGradients(call, view.table, given, are_distinct)};
    update.planes.rounding = planes.table(item).NextRounding();
    return update;
  }

  void Apply(OpCall& call, Table& table, const Rule& rule, const Update& update) const {
    const RowGradients& gradients = update.gradients;
    if (all_in_use_) {
      table.ApplyToRowsInUse(call, rule, update.planes, gradients.count, gradients.row_ids,
                             gradients.values);
    } else {
      table.ApplyToRows(call, rule, update.planes, gradients.count, gradients.row_ids,
                        gradients.values);
    }
  }

  static RowsView RowsOf(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle,
                         const TableView& view) {
    Plane& rows = view.PlaneOf(ctx, handle);
    if (&rows == view.planes.rows) return rows.data();
    Throw(ErrorCode::kInvalidArgument, "variable ", handle.name(), " is a slot of table '",
          view.options().name, "', not its rows");
  }

  RulePlanes PlanesOf(tf::OpKernelContext* ctx, const Group& group, int item, const TableView& view,
                      const Rule& rule) const {
    RulePlanes planes;
    planes.rows = RowsOf(ctx, group.Handle("rows", item), view);
    const int wanted = std::visit([](const auto& any) { return any.kStates; }, rule);
    const int64_t width =
        std::visit([&](const auto& any) { return StateWidth(any, planes.dim()); }, rule);
    for (int i = 0; i < num_states_; ++i) {
      const Plane& plane = view.PlaneOf(ctx, group.Handle("states", i * group.size() + item));
      const int in_plane = num_states_ == 1 ? wanted : 1;
      if (num_states_ > kMaxStates || (num_states_ != wanted && num_states_ != 1) ||
          plane.width() != in_plane * width) {
        Throw(ErrorCode::kInvalidArgument, "table '", view.options().name, "': the rule '",
              rule_.name(), "' has ", wanted, " states of ", width, " floats, got ", num_states_,
              " variables, one of width ", plane.width());
      }
      for (int state = 0; state < in_plane; ++state) {
        planes.states[i + state] = plane.data().FromColumn(state * width);
      }
    }
    if (num_states_ == 0 && wanted > 0) {
      Throw(ErrorCode::kInvalidArgument, "the rule '", rule_.name(), "' has ", wanted,
            " states, got none");
    }
    return planes;
  }

  const RuleInput rule_;
  const bool all_in_use_;
  const std::vector<bool> row_ids_are_distinct_;
  int num_states_ = 0;
};

const RegisteredKernel kOptimizerKernels[] = {
    {"SokApplyRule",
     Make<StepKernelOf<ApplyRule>>,
     {"rows", "states", "tables", "hyperparameters"}},
};

}  // namespace
}  // namespace sok
