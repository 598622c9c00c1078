// SPDX-License-Identifier: Apache-2.0
// Rows of a group of lookups to the bytes that travel, and back; as the layout has them.
#ifndef SOK_OPS_TF_PACKED_ROWS_H_
#define SOK_OPS_TF_PACKED_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/tf/exchanged_rows.h"

namespace sok {

/// Puts the rows of all items, which are on the device, into the request.
void Pack(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows,
          ExchangeRequest* request);

/// The same for float32 rows in the host's memory, which `memory` keeps: they are sent from where
/// they stand.
void SendInPlace(const RowLayout& layout, const std::vector<const float*>& rows,
                 std::shared_ptr<const void> memory, ExchangeRequest* request);

/// Output list 0: the rows that were received, [num_rows, dim] of each item.
void OutputReceived(tensorflow::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const ExchangeResult& result);

/// How many numbers this process has sent as the largest of float16, since they were beyond it.
int64_t NumSaturated();

}  // namespace sok

#endif  // SOK_OPS_TF_PACKED_ROWS_H_
