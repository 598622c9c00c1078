// SPDX-License-Identifier: Apache-2.0
// Rows of a group of lookups to the bytes that travel, and back; as the layout has them.
#ifndef SOK_OPS_TF_LOOKUP_PACKED_ROWS_H_
#define SOK_OPS_TF_LOOKUP_PACKED_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/tf/lookup/exchanged_rows.h"

namespace sok {

/// Gives the request the rows of all items, which are on the device: where they stand, and `memory`
/// keeps them, if that is the host's memory and they travel as they are; else copies of them.
void SendRows(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows,
              std::shared_ptr<const void> memory, ExchangeRequest* request);

/// The output `list` of an item, [num_rows, dim]; made when it is first asked for.
float* ReceivedRows(tensorflow::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const char* list, int item);

/// The output `list`: the rows that were received. Those that did not travel are left as they are.
void OutputReceived(tensorflow::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const ExchangeResult& result,
                    const char* list);

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_PACKED_ROWS_H_
