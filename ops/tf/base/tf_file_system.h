// SPDX-License-Identifier: Apache-2.0
// TensorFlow's file systems, for readers and writers of formats.
#pragma once

#include <string>

#include "ops/formats/files/file_system.h"

namespace sok {

const FileSystem& TfFileSystem();

/// A folder as its file system writes it: of this machine without "file://", cleaned. Throws
/// kInvalidArgument for an empty one, and for a folder of another machine.
std::string CleanFolder(const std::string& folder);

}  // namespace sok
