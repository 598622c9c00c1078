// SPDX-License-Identifier: Apache-2.0
// The file format of a checkpoint's index: sorted names and values, in blocks with checksums.
#pragma once

#include <map>
#include <string>

#include "ops/formats/files/file_system.h"

namespace sok {

/// {name: value}. Throws the file system's errors, and kDataLoss for another or a damaged file; all
/// name it. TensorFlow's own reader mistakes a corrupt block for the end, and aborts the process
/// for a corrupt size.
std::map<std::string, std::string> ReadSortedTable(const FileSystem& files,
                                                   const std::string& path);

}  // namespace sok
