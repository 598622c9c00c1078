// SPDX-License-Identifier: Apache-2.0
// Exports functions of the op library for Python.
#ifndef SOK_OPS_TF_BASE_EXPORTED_H_
#define SOK_OPS_TF_BASE_EXPORTED_H_

#define SOK_EXPORT extern "C" __attribute__((visibility("default")))

#endif  // SOK_OPS_TF_BASE_EXPORTED_H_
