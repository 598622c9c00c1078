// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/table_attributes.h"

#include <string>

#include "ops/tf/base/border.h"

namespace sok {
namespace {

template <typename Kinds>
auto KindFrom(tf::OpKernelConstruction* ctx, const char* attribute, const Kinds& kinds) {
  return ItemNamed(kinds, attribute, Attribute<std::string>(ctx, attribute)).value;
}

}  // namespace

TableOptions TableOptionsFrom(tf::OpKernelConstruction* ctx) {
  TableOptions options;
  options.name = Attribute<std::string>(ctx, "table_name");
  options.raise_capacity = Attribute<std::string>(ctx, "raise_capacity");
  options.dim = Attribute<int64_t>(ctx, "dim");
  options.capacity = Attribute<int64_t>(ctx, "capacity");
  options.use_hash_index = Attribute<bool>(ctx, "use_hash_index");
  Placement& placement = options.placement;
  placement.kind = KindFrom(ctx, "placement_kind", kPlacementKinds);
  placement.num_ranks = Attribute<int64_t>(ctx, "num_ranks");
  placement.rank = Attribute<int64_t>(ctx, "rank");
  placement.owner_rank = Attribute<int64_t>(ctx, "owner_rank");
  placement.num_keys = Attribute<int64_t>(ctx, "num_keys");
  options.first_value.kind = KindFrom(ctx, "first_value", kFirstValueKinds);
  options.first_value.low_or_mean = Attribute<float>(ctx, "low_or_mean");
  options.first_value.high_or_stddev = Attribute<float>(ctx, "high_or_stddev");
  options.first_value.element = ElementOfRows(ctx);
  options.first_value.period = Attribute<int64_t>(ctx, "first_value_period");
  return options;
}

Element ElementOfRows(tf::OpKernelConstruction* ctx) {
  switch (Attribute<tf::DataType>(ctx, "row_dtype")) {
    case tf::DT_BFLOAT16:
      return Element::kBfloat16;
    case tf::DT_HALF:
      return Element::kFloat16;
    default:
      return Element::kFloat32;
  }
}

HistoryOptions HistoryOptionsFrom(tf::OpKernelConstruction* ctx) {
  HistoryOptions options;
  options.is_kept = Attribute<bool>(ctx, "keeps_history");
  options.filter_freq = Attribute<int64_t>(ctx, "filter_freq");
  options.bloom.num_counters = Attribute<int64_t>(ctx, "bloom_counters");
  options.bloom.num_hashes = Attribute<int64_t>(ctx, "bloom_hashes");
  options.bloom.counter_bytes = Attribute<int64_t>(ctx, "bloom_counter_bytes");
  options.value_without_row = Attribute<float>(ctx, "value_without_row");
  options.evicts = Attribute<bool>(ctx, "evicts");
  options.max_keys = Attribute<int64_t>(ctx, "max_keys");
  CheckHistoryOptions(options);
  const bool has_use =
      options.filter_freq > 0 || options.bloom.num_counters > 0 || options.may_evict();
  if (has_use && !options.is_kept) {
    Throw(ErrorCode::kInvalidArgument,
          "filter_freq, bloom_counters, evicts and max_keys need keeps_history=true");
  }
  if (options.is_kept && !Attribute<bool>(ctx, "use_hash_index")) {
    Throw(ErrorCode::kInvalidArgument, "keeps_history needs use_hash_index=true");
  }
  return options;
}

StorageOptions StorageOptionsFrom(tf::OpKernelConstruction* ctx) {
  return {Attribute<std::string>(ctx, "storage_path"), Attribute<int64_t>(ctx, "memory_bytes")};
}

SlotOptions SlotOptionsFrom(tf::OpKernelConstruction* ctx) {
  SlotOptions options;
  options.name = Attribute<std::string>(ctx, "slot_name");
  options.plane.capacity = Attribute<int64_t>(ctx, "capacity");
  options.plane.width = Attribute<int64_t>(ctx, "width");
  options.initial_value = Attribute<float>(ctx, "initial_value");
  options.plane.rows_fill_in_order = Attribute<bool>(ctx, "rows_fill_in_order");
  options.storage = StorageOptionsFrom(ctx);
  return options;
}

KeysOf KindOfKeys(tf::OpKernelConstruction* ctx) {
  switch (Attribute<tf::DataType>(ctx, "Tkey")) {
    case tf::DT_UINT32:
      return KeysOf::kUint32;
    case tf::DT_INT32:
      return KeysOf::kInt32;
    default:
      return KeysOf::kInt64;
  }
}

}  // namespace sok
