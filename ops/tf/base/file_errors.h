// SPDX-License-Identifier: Apache-2.0
// Translates errors of TensorFlow's file systems to errors of the core.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace sok {

/// Throws unless `status` is OK; the message names the path once.
void ThrowOfFile(const absl::Status& status, const std::string& path);

}  // namespace sok
