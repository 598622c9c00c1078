// SPDX-License-Identifier: Apache-2.0
// Packs rows of a group of lookups into bytes to send, and unpacks them, as the layout says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/tf/lookup/exchanged_rows.h"

namespace sok {

/// The rows of all items, which are on the device: kept alive by `memory` if they are in the host's
/// memory and sent unconverted; else as copies.
Outgoing OutgoingRows(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows,
                      std::shared_ptr<const void> memory);

/// The number of floats with the size of a number.
int64_t FloatsOf(tf::DataType dtype);

/// Writes the received rows to the output `list`: of an item [num_rows, numbers of `dim` floats].
void OutputReceived(tf::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const ExchangeResult& result,
                    const char* list);

}  // namespace sok
