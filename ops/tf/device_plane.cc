// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/device_plane.h"

#include <algorithm>
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/plane_variable.h"
#include "tensorflow/core/framework/allocation_description.pb.h"

namespace sok {

namespace tf = tensorflow;

namespace {

constexpr int64_t kChunkBytes = 64 << 20;  // of a device's memory, to carry rows to the host

class PlaneBuffer : public tf::TensorBuffer {
 public:
  PlaneBuffer(std::shared_ptr<EnginePlane> plane, int64_t num_bytes)
      : tf::TensorBuffer(plane->data()), plane_(std::move(plane)), num_bytes_(num_bytes) {}
  size_t size() const override { return static_cast<size_t>(num_bytes_); }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* description) const override {
    description->set_requested_bytes(num_bytes_);
    description->set_allocator_name("sok_device_plane");
  }

 private:
  const std::shared_ptr<EnginePlane> plane_;
  const int64_t num_bytes_;
};

/// The variable's value; its lock is held alone.
void PutIntoVariable(tf::Var* variable, const std::shared_ptr<EnginePlane>& plane,
                     int64_t capacity) {
  const tf::TensorShape shape({capacity, plane->width()});
  tf::core::RefCountPtr<tf::TensorBuffer> buffer(
      new PlaneBuffer(plane, shape.num_elements() * static_cast<int64_t>(sizeof(float))));
  *variable->tensor() = tf::Tensor(tf::DT_FLOAT, shape, std::move(buffer));
}

/// use(first, count, chunk [count, width]) for all rows, with memory on the device for one chunk.
void ForEachChunk(DeviceCall& call, int64_t num_rows, int64_t width,
                  const std::function<void(int64_t first, int64_t count, float* chunk)>& use) {
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::min(num_rows, std::max<int64_t>(1, kChunkBytes / row_bytes));
  float* chunk = call.Temporary<float>(most * width);
  for (int64_t first = 0; first < num_rows; first += most) {
    use(first, std::min(most, num_rows - first), chunk);
  }
}

}  // namespace

std::shared_ptr<EnginePlane> MakeDevicePlane(DeviceCall& call, tf::Var* variable, int64_t capacity,
                                             int64_t width) {
  std::shared_ptr<EnginePlane> plane = call.engine().MakePlane(capacity, width);
  tf::mutex_lock lock(*variable->mu());
  PutIntoVariable(variable, plane, capacity);
  variable->is_initialized = true;
  variable->copy_on_read_mode.store(true);
  return plane;
}

void KeepInPlane(DeviceCall& call, tf::Var* variable, const std::shared_ptr<EnginePlane>& plane,
                 int64_t capacity, const std::function<int64_t()>& num_rows) {
  {
    tf::tf_shared_lock lock(*variable->mu());
    if (variable->tensor()->data() == plane->data()) return;
  }
  tf::mutex_lock lock(*variable->mu());
  if (variable->tensor()->data() == plane->data()) return;  // by another thread, meanwhile
  const float* values = PlaneData(variable, capacity, plane->width());
  const int64_t count = num_rows();
  plane->Reserve(count);
  call.engine().CopyOnDevice(call.stream(), plane->data(), values,
                             count * plane->width() * static_cast<int64_t>(sizeof(float)));
  PutIntoVariable(variable, plane, capacity);
}

void CopyRowsToHost(DeviceCall& call, const EnginePlane& plane, int64_t num_rows,
                    const int64_t* row_ids, float* values) {
  const int64_t width = plane.width();
  ForEachChunk(call, num_rows, width, [&](int64_t first, int64_t count, float* chunk) {
    call.engine().GatherRows(call.stream(), count, width, row_ids + first, plane.data(), chunk);
    call.CopyToHost(values + first * width, chunk, count * width);
  });
}

void CopyRowsFromHost(DeviceCall& call, const EnginePlane& plane, int64_t num_rows,
                      const int64_t* row_ids, const float* values) {
  const int64_t width = plane.width();
  ForEachChunk(call, num_rows, width, [&](int64_t first, int64_t count, float* chunk) {
    call.CopyFromHost(chunk, values + first * width, count * width);
    call.engine().ScatterRows(call.stream(), count, width, row_ids + first, chunk, plane.data());
  });
}

}  // namespace sok
