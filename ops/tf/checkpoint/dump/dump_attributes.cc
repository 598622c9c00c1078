// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/dump_attributes.h"

#include "ops/tf/base/border.h"

namespace sok {
namespace {

StoredType StoredTypeOf(tf::DataType dtype) {
  switch (dtype) {
    case tf::DT_INT32:
      return StoredType::kInt32;
    case tf::DT_UINT32:
      return StoredType::kUint32;
    case tf::DT_UINT64:
      return StoredType::kUint64;
    default:
      return StoredType::kInt64;
  }
}

}  // namespace

DumpAttributes::DumpAttributes(tf::OpKernelConstruction* ctx)
    : format_(Attribute<std::string>(ctx, "format")),
      table_name_(Attribute<std::string>(ctx, "table_name")),
      slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
      num_keys_(Attribute<int64_t>(ctx, "num_keys")),
      key_type_(StoredTypeOf(Attribute<tf::DataType>(ctx, "Tkey"))) {
  const auto optimizers = Attribute<std::vector<std::string>>(ctx, "optimizers");
  const auto others = Attribute<std::vector<std::string>>(ctx, "other_optimizers");
  const auto slots = Attribute<std::vector<std::string>>(ctx, "slots");
  const size_t count = slot_names_.size();
  OP_REQUIRES(ctx, slots.size() == count && optimizers.size() == count && others.size() == count,
              absl::InvalidArgumentError("each slot needs its name and its optimizer's"));
  for (size_t i = 0; i < count; ++i) slots_.push_back({optimizers[i], slots[i], others[i]});
}

std::unique_ptr<const DumpFormat> DumpAttributes::Format(const std::string& folder,
                                                         int64_t dim) const {
  return ItemNamed(kDumpFormats, "format", format_)
      .value({folder, table_name_, key_type_, dim, slots_});
}

}  // namespace sok
