// SPDX-License-Identifier: Apache-2.0
// The attributes of ops on dumps, which say how a table stands in its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/names.h"
#include "ops/engine/restored_keys.h"
#include "ops/formats/dumps/dump_format.h"
#include "ops/formats/dumps/headed_dump.h"
#include "ops/formats/dumps/pair_dump.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/op_kernel.h"

/// Part of a REGISTER_OP. Names of optimizers and slots are those in the files.
#define SOK_DUMP_ATTRIBUTES                             \
  .Attr("format: {" + NamesOf(kDumpFormats) + "}")      \
      .Attr("table_name: string")                       \
      .Attr("slot_names: list(string) >= 0 = []")       \
      .Attr("optimizers: list(string) >= 0 = []")       \
      .Attr("slots: list(string) >= 0 = []")            \
      .Attr("other_optimizers: list(string) >= 0 = []") \
      .Attr("num_keys: int = -1")                       \
      .Attr("Tkey: {int64, uint32, int32, uint64}")

namespace sok {

/// What determines the files of a table.
struct DumpedTable {
  const std::string& folder;
  const std::string& name;  // in the files
  StoredType key_type;      // of keys to write
  int64_t dim;              // of rows to read; 0: any
  const std::vector<DumpedSlot>& slots;
};

/// All formats of dumps.
constexpr Named<std::unique_ptr<const DumpFormat> (*)(const DumpedTable&)> kDumpFormats[] = {
    {"pair",
     [](const DumpedTable& table) -> std::unique_ptr<const DumpFormat> {
       return std::make_unique<PairDump>(table.folder, table.name, table.key_type, table.dim);
     }},
    {"headed",
     [](const DumpedTable& table) -> std::unique_ptr<const DumpFormat> {
       return std::make_unique<HeadedDump>(table.folder, table.name, table.key_type, table.slots);
     }},
};

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
