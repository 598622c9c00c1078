// SPDX-License-Identifier: Apache-2.0
// What is said of numbers that rows of float16 have not.
#ifndef SOK_OPS_TF_TABLES_CONTENTS_CLAMPED_H_
#define SOK_OPS_TF_TABLES_CONTENTS_CLAMPED_H_

#include <cstdint>
#include <string>

namespace sok {

/// Logs how many numbers that the table's rows were set to have become the largest float16, if any.
void WarnOfClamped(const std::string& table, int64_t num_clamped);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_CONTENTS_CLAMPED_H_
