// SPDX-License-Identifier: Apache-2.0
// Base class of ops that read a table from a checkpoint with one tensor each for keys, rows and
// slots.
#ifndef SOK_OPS_TF_CHECKPOINT_RESTORE_ROWS_OP_H_
#define SOK_OPS_TF_CHECKPOINT_RESTORE_ROWS_OP_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/formats/bundle/series.h"
#include "ops/tf/checkpoint/layout/restored_rows.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/restored_keys.h"

namespace sok {

/// Attributes: `table_name`; `titles`, names of the rows, of the slots `slot_names` and of ordinary
/// variables, whose rows have `widths`; `Tkey`.
class RowsOp : public WholeTableOp {
 protected:
  explicit RowsOp(tensorflow::OpKernelConstruction* ctx);

  /// One checkpoint of the chain that a table is restored from.
  struct Link {
    Link(const std::string& prefix, bool is_first)
        : saved(prefix), ending(is_first ? "" : kIncrementEnding) {}

    bool is_whole() const { return ending.empty(); }

    SavedTensors saved;
    const std::string ending;     // of its tensors' names
    std::vector<size_t> numbers;  // in kKeyNumbers, those to restore; set by CheckShapes
    OwnedKeys owned;
  };
  using Chain = std::vector<std::unique_ptr<Link>>;

  static Chain OpenChain(const std::string& prefix);
  std::string KeysIn(const Link& link) const { return name_ + "/keys" + link.ending; }
  std::vector<std::string> NamesIn(const Link& link) const;  // of keys, titles and link.numbers
  /// The place in NamesIn of a column, as of ColumnsOf; 0: the checkpoint lacks it.
  size_t TensorOfColumn(const Link& link, size_t column) const;

  /// Throws unless every key has a row of the right width; reads only the index.
  void CheckShapes(const TableView& view, Link& link) const;
  /// Identifies the contents of the chain.
  std::string SignatureOf(const Chain& chain) const;

  const std::string name_;
  const std::vector<std::string> titles_;  // of the rows, the slots and the variables
  const std::vector<std::string> slot_names_;
  const std::vector<int64_t> widths_;
  const KeysOf keys_;

 private:
  std::string NameOf(const KeyNumber& number, const Link& link) const {
    return name_ + "/" + number.name + link.ending;
  }
  void CheckHasSlot(Link& link, const std::string& title) const;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_RESTORE_ROWS_OP_H_
