// SPDX-License-Identifier: Apache-2.0
// A plane in the host's memory: reserved address space, committed as rows are written.
#ifndef SOK_OPS_CPU_CPU_PLANE_H_
#define SOK_OPS_CPU_CPU_PLANE_H_

#include <cstdint>

#include "ops/base/memory/reserved_memory.h"
#include "ops/engine/engine.h"

namespace sok {

/// A plane with a declared capacity has address space for all of it and never moves. Otherwise it
/// starts small and is remapped to four times the size, or less if that is refused.
class CpuPlane : public Plane {
 public:
  /// Throws kOutOfMemory if the system refuses the address space.
  explicit CpuPlane(const PlaneOptions& options);

  RowsView data() const override { return {memory_.data(), options_.element, options_.width}; }
  int64_t num_rows() const override { return num_rows_; }
  void Reserve(int64_t num_rows) override;
  bool MovesWhenItGrows() const override { return options_.capacity == kMaxRows; }
  void ExpectRows(int64_t num_rows) override;
  void Release() override;

 private:
  void Resize(int64_t num_rows);

  const PlaneOptions options_;
  ReservedMemory memory_;
  int64_t num_rows_ = 0;                  // for which there is memory
  bool starts_with_small_pages_ = false;  // followed by huge ones
};

}  // namespace sok

#endif  // SOK_OPS_CPU_CPU_PLANE_H_
