// SPDX-License-Identifier: Apache-2.0
// What is said of numbers that rows of float16 have not.
#pragma once

#include <cstdint>
#include <string>

namespace sok {

/// Logs how many numbers that the table's rows were set to have become the largest float16, if any.
void WarnOfClamped(const std::string& table, int64_t num_clamped);

}  // namespace sok
