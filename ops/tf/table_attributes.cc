// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/table_attributes.h"

#include <string>

#include "ops/tf/border.h"

namespace sok {
namespace {

FirstValue::Kind ParseFirstValueKind(const std::string& name) {
  if (name == "uniform") return FirstValue::Kind::kUniform;
  if (name == "normal") return FirstValue::Kind::kNormal;
  if (name == "truncated_normal") return FirstValue::Kind::kTruncatedNormal;
  if (name == "constant") return FirstValue::Kind::kConstant;
  return FirstValue::Kind::kPreset;
}

}  // namespace

TableOptions TableOptionsFrom(tensorflow::OpKernelConstruction* ctx) {
  TableOptions options;
  options.name = Attribute<std::string>(ctx, "table_name");
  options.dim = Attribute<int64_t>(ctx, "dim");
  options.capacity = Attribute<int64_t>(ctx, "capacity");
  options.use_hash_index = Attribute<bool>(ctx, "use_hash_index");
  options.world_size = Attribute<int64_t>(ctx, "num_ranks");
  options.rank = Attribute<int64_t>(ctx, "rank");
  options.first_value.kind = ParseFirstValueKind(Attribute<std::string>(ctx, "first_value"));
  options.first_value.low_or_mean = Attribute<float>(ctx, "low_or_mean");
  options.first_value.high_or_stddev = Attribute<float>(ctx, "high_or_stddev");
  return options;
}

SlotOptions SlotOptionsFrom(tensorflow::OpKernelConstruction* ctx) {
  SlotOptions options;
  options.name = Attribute<std::string>(ctx, "slot_name");
  options.capacity = Attribute<int64_t>(ctx, "capacity");
  options.width = Attribute<int64_t>(ctx, "width");
  options.initial_value = Attribute<float>(ctx, "initial_value");
  options.rows_fill_in_order = Attribute<bool>(ctx, "rows_fill_in_order");
  return options;
}

}  // namespace sok
