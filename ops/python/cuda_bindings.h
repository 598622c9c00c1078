// SPDX-License-Identifier: Apache-2.0
// The GPU's table in the module sok_compat.engine._engine.
#ifndef SOK_OPS_PYTHON_CUDA_BINDINGS_H_
#define SOK_OPS_PYTHON_CUDA_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace sok {

/// Adds HAS_CUDA and, where that is true, the class StoredCudaTable; else WHY_NO_CUDA says what was
/// missing when this was built.
void BindCudaTable(nanobind::module_& module);

}  // namespace sok

#endif  // SOK_OPS_PYTHON_CUDA_BINDINGS_H_
