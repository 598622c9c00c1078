// SPDX-License-Identifier: Apache-2.0
// Formats of files for the checkpoint tool.
#pragma once

#include <nanobind/nanobind.h>

namespace sok {

/// Adds the names of ops/formats to the module.
void BindFormats(nanobind::module_& module);

}  // namespace sok
