// SPDX-License-Identifier: Apache-2.0
// Formats of files for the checkpoint tool.
#ifndef SOK_OPS_PYTHON_FORMATS_BINDING_H_
#define SOK_OPS_PYTHON_FORMATS_BINDING_H_

#include <nanobind/nanobind.h>

namespace sok {

/// Adds the names of ops/formats to the module.
void BindFormats(nanobind::module_& module);

}  // namespace sok

#endif  // SOK_OPS_PYTHON_FORMATS_BINDING_H_
