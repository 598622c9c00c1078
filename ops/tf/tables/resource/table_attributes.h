// SPDX-License-Identifier: Apache-2.0
// Options of tables and slots from the attributes of ops.
#pragma once

#include "ops/engine/restored_keys.h"
#include "ops/engine/table_options.h"
#include "ops/history/key_history.h"
#include "ops/tf/tables/resource/table_slots.h"

namespace sok {

/// All options except the seed of first values, which is an input.
TableOptions TableOptionsFrom(tf::OpKernelConstruction* ctx);

/// By the attribute row_dtype.
Element ElementOfRows(tf::OpKernelConstruction* ctx);

/// Throws kInvalidArgument.
HistoryOptions HistoryOptionsFrom(tf::OpKernelConstruction* ctx);

StorageOptions StorageOptionsFrom(tf::OpKernelConstruction* ctx);

SlotOptions SlotOptionsFrom(tf::OpKernelConstruction* ctx);

/// By the attribute Tkey.
KeysOf KindOfKeys(tf::OpKernelConstruction* ctx);

}  // namespace sok
