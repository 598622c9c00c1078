// SPDX-License-Identifier: Apache-2.0
#include "ops/tests/tf/with_tensorflow/op_context.h"

#include <dlfcn.h>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/node_def_builder.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace sok::testing {

namespace tf = tensorflow;

namespace {

REGISTER_OP("SokTest").SetShapeFn(tf::shape_inference::NoOutputs);

class TestOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext*) override {}
};
REGISTER_KERNEL_BUILDER(Name("SokTest").Device(tf::DEVICE_CPU), TestOp);

}  // namespace

class OpContext::CpuDevice : public tf::DeviceBase {
 public:
  CpuDevice() : tf::DeviceBase(tf::Env::Default()) {
    threads_.num_threads = 1;
    set_tensorflow_cpu_worker_threads(&threads_);
  }
  tf::Allocator* GetAllocator(tf::AllocatorAttributes) override { return tf::cpu_allocator(); }

 private:
  tf::DeviceBase::CpuWorkerThreads threads_;
};

OpContext::OpContext() : device_(std::make_unique<CpuDevice>()) {
  tf::NodeDef node;
  ThrowIfError(tf::NodeDefBuilder("test", "SokTest").Finalize(&node));
  tf::Status status;
  kernel_ =
      tf::CreateOpKernel(tf::DEVICE_CPU, device_.get(), tf::cpu_allocator(), node, 0, &status);
  ThrowIfError(status);
  params_.device = device_.get();
  params_.op_kernel = kernel_.get();
  params_.resource_manager = &resources_;
  context_ = std::make_unique<tf::OpKernelContext>(&params_);
}

OpContext::~OpContext() = default;

}  // namespace sok::testing

#if defined(__SANITIZE_THREAD__)
// TensorFlow is not compiled with the sanitizer: these definitions replace the methods of its mutex
// and inform the sanitizer.
namespace {

template <typename Method>
Method Next(const char* name) {
  return reinterpret_cast<Method>(dlsym(RTLD_NEXT, name));
}

using Locking = void (*)(tsl::mutex*);

}  // namespace

namespace tsl {

void mutex::lock() {
  static const auto next = Next<Locking>("_ZN3tsl5mutex4lockEv");
  next(this);
  __tsan_acquire(this);
}
void mutex::unlock() {
  static const auto next = Next<Locking>("_ZN3tsl5mutex6unlockEv");
  __tsan_release(this);
  next(this);
}
void mutex::lock_shared() {
  static const auto next = Next<Locking>("_ZN3tsl5mutex11lock_sharedEv");
  next(this);
  __tsan_acquire(this);
}
void mutex::unlock_shared() {
  static const auto next = Next<Locking>("_ZN3tsl5mutex13unlock_sharedEv");
  __tsan_release(this);
  next(this);
}

}  // namespace tsl
#endif
