// SPDX-License-Identifier: Apache-2.0
// Distinct on the CPU.
#include "ops/lookup/distinct.h"

#include "ops/base/error.h"
#include "ops/base/first_appearance.h"

namespace sok {

template <typename Key>
int64_t Distinct(Executor&, int64_t num_keys, const Key* keys, int64_t* distinct_keys,
                 int32_t* inverse) {
  if (num_keys > kMaxBatchKeys) {
    Throw(ErrorCode::kInvalidArgument, "a batch of ", num_keys, " keys is above the limit of ",
          kMaxBatchKeys, "; look the keys up in several batches");
  }
  return NumberByFirstAppearance(num_keys, keys, distinct_keys, inverse);
}

template int64_t Distinct(Executor&, int64_t, const int64_t*, int64_t*, int32_t*);
template int64_t Distinct(Executor&, int64_t, const uint32_t*, int64_t*, int32_t*);

}  // namespace sok
