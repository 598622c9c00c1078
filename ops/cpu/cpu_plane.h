// SPDX-License-Identifier: Apache-2.0
// Planes of the host: reserved address space, committed as rows are written, or a file.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/base/memory/reserved_memory.h"
#include "ops/engine/engine.h"

namespace sok {

/// A plane with a declared capacity has address space for all of it and never moves. Otherwise it
/// starts small and is remapped to `growth` times the size, or less if that is refused.
class PlaneOfHost : public Plane {
 public:
  PlaneOfHost(const PlaneOptions& options, double growth);

  int64_t num_rows() const override { return num_rows_; }
  void Reserve(int64_t num_rows) override;
  bool MovesWhenItGrows() const override { return options_.capacity == kMaxRows; }

 protected:
  /// Of a new plane.
  size_t StartBytes() const;
  /// Provides address space. Throws kOutOfMemory.
  virtual void Resize(size_t size_bytes) = 0;

  const PlaneOptions options_;

 private:
  int64_t StartRows() const;

  const double growth_;
  int64_t num_rows_;  // for which there is address space
};

/// A plane in memory.
class CpuPlane : public PlaneOfHost {
 public:
  /// Throws kOutOfMemory if the system refuses the address space.
  explicit CpuPlane(const PlaneOptions& options);

  RowsView data() const override { return {memory_.data(), options_.element, options_.width}; }
  void ExpectRows(int64_t num_rows) override;
  void Release() override;

 private:
  void Resize(size_t size_bytes) override;

  ReservedMemory memory_;
  bool starts_with_small_pages_ = false;  // followed by huge ones
};

/// A plane in a file of options.storage. Without a declared capacity all rows have blocks on the
/// disk: TensorFlow's own ops may write each row that the variable shows.
class FilePlane : public PlaneOfHost {
 public:
  /// Throws kOutOfMemory if the system refuses the address space, and errors of the folder.
  explicit FilePlane(const PlaneOptions& options);

  RowsView data() const override {
    return {file_->data(), options_.element, options_.width, file_.get()};
  }
  void ExpectRows(int64_t num_rows) override;
  void Release() override { file_->Release(); }

 private:
  void Resize(size_t size_bytes) override;

  const std::unique_ptr<CachedFile> file_;
};

}  // namespace sok
