// SPDX-License-Identifier: Apache-2.0
// Translates errors of TensorFlow's file systems to errors of the core.
#ifndef SOK_OPS_TF_BASE_FILE_ERRORS_H_
#define SOK_OPS_TF_BASE_FILE_ERRORS_H_

#include <string>

#include "absl/status/status.h"

namespace sok {

/// Throws unless `status` is OK; the message names the path once.
void ThrowOfFile(const absl::Status& status, const std::string& path);

}  // namespace sok

#endif  // SOK_OPS_TF_BASE_FILE_ERRORS_H_
