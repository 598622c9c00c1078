// SPDX-License-Identifier: Apache-2.0
// The attributes of ops on dumps, which say how a table stands in its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/engine/restored_keys.h"
#include "ops/formats/dumps/dump_format.h"
#include "ops/formats/dumps/headed_dump.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/op_kernel.h"

/// Part of a REGISTER_OP. Names of optimizers and slots are those in the files.
#define SOK_DUMP_ATTRIBUTES                             \
  .Attr("format: {'pair', 'headed'}")                   \
      .Attr("table_name: string")                       \
      .Attr("slot_names: list(string) >= 0 = []")       \
      .Attr("optimizers: list(string) >= 0 = []")       \
      .Attr("slots: list(string) >= 0 = []")            \
      .Attr("other_optimizers: list(string) >= 0 = []") \
      .Attr("num_keys: int = -1")                       \
      .Attr("Tkey: {int64, uint32, int32, uint64}")

namespace sok {

class DumpAttributes {
 public:
  explicit DumpAttributes(tf::OpKernelConstruction* ctx);

  /// The planes of the slots.
  const std::vector<std::string>& slot_names() const { return slot_names_; }
  /// The keys are 0 to num_keys - 1, and files hold all of them; -1: any keys.
  int64_t num_keys() const { return num_keys_; }
  const std::string& table_name() const { return table_name_; }

  /// `dim`: of the rows to read.
  std::unique_ptr<const DumpFormat> Format(const std::string& folder, int64_t dim) const;

 private:
  const std::string format_, table_name_;
  const std::vector<std::string> slot_names_;
  const int64_t num_keys_;
  const StoredType key_type_;
  std::vector<DumpedSlot> slots_;
};

}  // namespace sok
